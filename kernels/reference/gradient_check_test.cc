// Every operation's backward against finite differences of its forward, in
// double, on the declared cases.
#include <cmath>

#include "gtest/gtest.h"
#include "kernels/reference/batch_norm.h"
#include "kernels/testing/finite_differences.h"
#include "kernels/reference/linear_ops.h"
#include "kernels/reference/losses.h"
#include "kernels/reference/map_ops.h"
#include "kernels/testing/op_cases.h"

namespace sluice::kernels {
namespace {

void Forward(const LinearCase& c, const Vector& x, const Vector& w,
             const double* b, Vector* y) {
  if (const auto* s = std::get_if<DenseShape>(&c.shape)) {
    reference::DenseForward(*s, c.samples, x.data(), w.data(), b, y->data());
  } else {
    reference::Conv2dForward(std::get<Conv2dShape>(c.shape), c.samples,
                             x.data(), w.data(), b, y->data());
  }
}

void Backward(const LinearCase& c, const Vector& x, const Vector& w,
              const Vector& dy, Vector* dx, Vector* dw, double* db) {
  if (const auto* s = std::get_if<DenseShape>(&c.shape)) {
    reference::DenseBackward(*s, c.samples, x.data(), w.data(), dy.data(),
                             dx->data(), dw->data(), db);
  } else {
    reference::Conv2dBackward(std::get<Conv2dShape>(c.shape), c.samples,
                              x.data(), w.data(), dy.data(), dx->data(),
                              dw->data(), db);
  }
}

TEST(GradientCheckTest, LinearOperations) {
  for (const LinearCase& c : LinearCases()) {
    if (c.samples * c.output_size() > kLargestSize) continue;
    SCOPED_TRACE(c.name);
    Vector x = UniformValues(c.samples * c.input_size(), 1);
    Vector w = UniformValues(c.weight_size(), 2);
    Vector b = UniformValues(c.bias_size(), 3);
    const Vector dy = UniformValues(c.samples * c.output_size(), 4);
    Vector y(dy.size()), dx(x.size()), dw(w.size()), db(b.size());
    const bool bias = !b.empty();
    Backward(c, x, w, dy, &dx, &dw, bias ? db.data() : nullptr);
    const auto f = [&] {
      Forward(c, x, w, bias ? b.data() : nullptr, &y);
      return Dot(dy, y);
    };
    // Linear in each argument, so the third derivative is 0.
    const double scale = MagnitudeSum(dy) * c.forward_terms();
    const double terms = c.forward_terms() + dy.size();
    CheckGradient(f, &x, dx, scale, terms, 0, "dx");
    CheckGradient(f, &w, dw, scale, terms, 0, "dw");
    CheckGradient(f, &b, db, scale, terms, 0, "db");
  }
}

void Forward(const MapCase& c, const Vector& x, Vector* y) {
  const int64_t n = c.samples, size = n * c.size;
  switch (c.kind) {
    case MapKind::kMaxPool:
      return reference::MaxPoolForward(c.pool, n, x.data(), y->data());
    case MapKind::kAveragePool:
      return reference::AveragePoolForward(c.pool, n, x.data(), y->data());
    case MapKind::kRelu:
      return reference::ReluForward(size, x.data(), y->data());
    case MapKind::kTanh:
      return reference::TanhForward(size, x.data(), y->data());
    case MapKind::kSigmoid:
      return reference::SigmoidForward(size, x.data(), y->data());
    case MapKind::kGelu:
      return reference::GeluForward(size, x.data(), y->data());
    case MapKind::kGlobalAveragePool:
      return reference::GlobalAveragePoolForward(n * c.pool.channels,
                                                 c.pool.height * c.pool.width,
                                                 x.data(), y->data());
  }
}

void Backward(const MapCase& c, const Vector& x, const Vector& y,
              const Vector& dy, Vector* dx) {
  const int64_t n = c.samples, size = n * c.size;
  switch (c.kind) {
    case MapKind::kMaxPool:
      return reference::MaxPoolBackward(c.pool, n, x.data(), dy.data(),
                                        dx->data());
    case MapKind::kAveragePool:
      return reference::AveragePoolBackward(c.pool, n, dy.data(), dx->data());
    case MapKind::kRelu:
      return reference::ReluBackward(size, y.data(), dy.data(), dx->data());
    case MapKind::kTanh:
      return reference::TanhBackward(size, y.data(), dy.data(), dx->data());
    case MapKind::kSigmoid:
      return reference::SigmoidBackward(size, y.data(), dy.data(), dx->data());
    case MapKind::kGelu:
      return reference::GeluBackward(size, x.data(), dy.data(), dx->data());
    case MapKind::kGlobalAveragePool:
      return reference::GlobalAveragePoolBackward(n * c.pool.channels,
                                                  c.pool.height * c.pool.width,
                                                  dy.data(), dx->data());
  }
}

TEST(GradientCheckTest, PoolingAndActivations) {
  for (const MapCase& c : MapCases()) {
    if (c.samples * c.input_size() > kLargestSize) continue;
    SCOPED_TRACE(c.name);
    Vector x = SpreadValues(c.samples * c.input_size(), 5);
    const Vector dy = UniformValues(c.samples * c.output_size(), 6);
    Vector y(dy.size()), dx(x.size());
    Forward(c, x, &y);
    Backward(c, x, y, dy, &dx);
    const auto f = [&] {
      Forward(c, x, &y);
      return Dot(dy, y);
    };
    // |tanh'''| <= 2, |sigmoid'''| <= 1/8, |gelu'''| <= 1; the others are
    // piecewise linear.
    const bool smooth = c.is_activation() && c.kind != MapKind::kRelu;
    const double third = smooth ? 2 : 0;
    // |x| < 2; a few roundings beside the sum over the outputs.
    CheckGradient(f, &x, dx, 2 * MagnitudeSum(dy), dy.size() + 8.0, third,
                  "dx");
  }
}

TEST(GradientCheckTest, BatchNorm) {
  for (const BatchNormCase& c : BatchNormCases()) {
    if (c.size() > kLargestSize) continue;
    SCOPED_TRACE(c.name);
    const BatchNormShape& s = c.shape;
    Vector x = SpreadValues(c.size(), 1);
    Vector gamma = UniformValues(s.channels, 2);
    Vector beta = UniformValues(s.channels, 3);
    const Vector dy = UniformValues(c.size(), 4);
    Vector y(x.size()), dx(x.size()), dgamma(s.channels), dbeta(s.channels);
    Vector mean(s.channels), variance(s.channels);
    const auto f = [&] {
      reference::BatchNormStatistics(s, c.samples, x.data(), mean.data(),
                                     variance.data());
      reference::BatchNormApply(s, c.samples, x.data(), gamma.data(),
                                beta.data(), mean.data(), variance.data(),
                                y.data());
      return Dot(dy, y);
    };
    f();
    reference::BatchNormBackward(s, c.samples, x.data(), gamma.data(),
                                 mean.data(), variance.data(), dy.data(),
                                 dx.data(), dgamma.data(), dbeta.data());
    double least = 1;
    for (double v : variance) least = std::min(least, v + s.epsilon);
    // y is a function of x / deviation, whose third derivative is at most
    // about 60 (each turn adds a product of two to three terms of size 1).
    const double third = 60 * MagnitudeSum(dy) / std::pow(least, 1.5);
    // |x - mean| < 4, and the sums of the statistics.
    const double scale = MagnitudeSum(dy) * (4 / std::sqrt(least) + 1);
    const double terms = c.size() + 16.0;
    CheckGradient(f, &x, dx, scale, terms, third, "dx");
    CheckGradient(f, &gamma, dgamma, scale, terms, 0, "dgamma");
    CheckGradient(f, &beta, dbeta, scale, terms, 0, "dbeta");
  }
}

TEST(GradientCheckTest, Losses) {
  for (const LossCase& c : LossCases()) {
    SCOPED_TRACE(testing::Message() << c.width << " n" << c.samples);
    Vector z = SpreadValues(c.samples * c.width, 8);
    const Vector t = UniformValues(z.size(), 9);
    const auto labels = Labels(c.samples, c.width, 10);
    Vector dz(z.size());
    const auto softmax = [&](double* d) {
      return reference::SoftmaxCrossEntropy(c.width, c.samples, z.data(),
                                            labels.data(), 1, d)
          .loss;
    };
    softmax(dz.data());
    // A loss is at most 4 + log(width) here; its third derivative at most 1.
    CheckGradient([&] { return softmax(nullptr); }, &z, dz,
                  4 + std::log(c.width), c.width + c.samples + 16.0, 1,
                  "softmax cross-entropy");
    const auto squared = [&](double* d) {
      return reference::MeanSquaredError(c.width, c.samples, z.data(), t.data(),
                                         1, d)
          .loss;
    };
    squared(dz.data());
    // |z - t| < 3; a quadratic has no third derivative.
    CheckGradient([&] { return squared(nullptr); }, &z, dz, 4.5 * c.width,
                  c.width * c.samples + 8.0, 0, "mean squared error");
  }
}

TEST(LossesTest, TheGradientIsMultipliedByTheScale) {
  const Vector z = {1, 2, 0}, t = {3, 5, 7};
  const int32_t label = 1;
  Vector dz(3), scaled(3);
  reference::SoftmaxCrossEntropy(3, 1, z.data(), &label, 1, dz.data());
  reference::SoftmaxCrossEntropy(3, 1, z.data(), &label, 64, scaled.data());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(scaled[i], 64 * dz[i]);
  reference::MeanSquaredError(3, 1, z.data(), t.data(), 64, scaled.data());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(scaled[i], 64 * (z[i] - t[i]));
}

TEST(LossesTest, OfEqualLogitsTheLowestClassCounts) {
  const Vector z = {1, 1, 0};
  for (int32_t label : {0, 1}) {
    EXPECT_EQ(reference::SoftmaxCrossEntropy<double>(3, 1, z.data(), &label, 1,
                                                     nullptr)
                  .correct,
              label == 0 ? 1 : 0);
  }
}

}  // namespace
}  // namespace sluice::kernels
