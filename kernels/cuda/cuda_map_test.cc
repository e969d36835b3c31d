// Pooling, activations, dropout, sums and losses of the CUDA device.
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/testing/cuda_testing.h"

namespace sluice::kernels {
namespace {

using Draw = DropoutOp::Draw;

// Of each channel of images.
struct Plane {
  int64_t channels = 1;
  int64_t pixels = 1;
};

class CudaMapTest : public CudaTest {
 protected:
  // Arrays of the device.
  Activations Given(const std::vector<float>& values, int64_t offset = 0,
                    const Plane& plane = {}) const {
    return Activations(device_.get(), precision(), values, offset,
                       plane.channels, plane.pixels);
  }
  Activations Unwritten(int64_t size, int64_t offset = 0,
                        const Plane& plane = {}) const {
    return Activations::Unwritten(device_.get(), precision(), size, offset,
                                  plane.channels, plane.pixels);
  }

  // Each may be off by as much before it is stored.
  void ExpectNearReference(const std::vector<float>& got,
                           const std::vector<float>& want, double tolerance,
                           const std::string& what) const {
    if (tolerance == 0) {
      ExpectStoredNear(got, Rounded(want), 0, {}, what);
    } else {
      ExpectStoredNear(got, want, tolerance, stored(), what);
    }
  }
};
SLUICE_CUDA_PRECISIONS_TEST_SUITE(CudaMapTest);

Plane InputOf(const MapCase& c) {
  if (c.is_activation()) return {c.size, 1};
  return {c.pool.channels, c.pool.height * c.pool.width};
}
Plane OutputOf(const MapCase& c) {
  if (c.is_activation()) return {c.size, 1};
  return {c.pool.channels, c.output_size() / c.pool.channels};
}

// Error against the reference, in units of the output's magnitude.
double MapTolerance(const MapCase& c, float magnitude) {
  switch (c.kind) {
    case MapKind::kMaxPool:
    case MapKind::kRelu:
      return 0;  // Values are only moved, or added in the reference's order.
    case MapKind::kAveragePool:
    case MapKind::kGlobalAveragePool:
      // Summed in double as well, in another order: a rounding that falls the
      // other way. Backward shares round as the reference's.
      return 2 * kUnit * magnitude;
    case MapKind::kTanh:
      // tanhf is good to 2 units (CUDA's table of its functions); 1 - y^2
      // rounds three times near 1.
      return 8 * kUnit * magnitude;
    case MapKind::kSigmoid:
      // expf is good to 2 units (glibc's to 1), y is at most 1 and its
      // derivative 1/4.
      return 8 * kUnit;
    case MapKind::kGelu:
      // erfcf is good to 8 units of a result of at most 2, halved, of an
      // argument that is off by 2 units times |x| <= 2; the rest rounds a few
      // times.
      return 24 * kUnit * magnitude;
  }
  return 0;
}

TEST_P(CudaMapTest, PoolingAndActivationsAgreeWithTheReference) {
  for (const MapCase& c : MapCases()) {
    const int64_t in = c.samples * c.input_size();
    const int64_t out = c.samples * c.output_size();
    if (TooLarge(in)) continue;
    SCOPED_TRACE(c.name);
    auto op = Prepare(device_.get(), c);
    ASSERT_TRUE(op.ok()) << op.status();
    const auto plain = *Prepare(reference_.get(), c);
    const auto x = Rounded(ToFloats(SpreadValues(in, 5)));
    const auto dy = Rounded(ToFloats(UniformValues(out, 6)));
    std::vector<float> want_y(out), want_dx(in);
    ASSERT_TRUE(plain->Forward(c.samples, x.data(), want_y.data()).ok());
    // Both from the reference's y, so that each direction stands alone.
    const auto from_y = Rounded(want_y);
    ASSERT_TRUE(plain
                    ->Backward(c.samples, x.data(), from_y.data(), dy.data(),
                               want_dx.data())
                    .ok());
    std::vector<float> first_y, first_dx;
    for (int64_t offset : {0, 1, 2}) {
      const auto at_x = Given(x, offset, InputOf(c)),
                 at_y = Given(from_y, offset, OutputOf(c)),
                 at_dy = Given(dy, offset, OutputOf(c)),
                 y = Unwritten(out, offset, OutputOf(c)),
                 dx = Unwritten(in, offset, InputOf(c));
      ASSERT_TRUE((*op)->Forward(c.samples, at_x.data(), y.data()).ok());
      ASSERT_TRUE((*op)
                      ->Backward(c.samples, at_x.data(), at_y.data(),
                                 at_dy.data(), dx.data())
                      .ok());
      if (offset == 0) {
        first_y = y.Read();
        first_dx = dx.Read();
        ExpectNearReference(first_y, want_y, MapTolerance(c, 2), "y");
        ExpectNearReference(first_dx, want_dx, MapTolerance(c, 1), "dx");
      } else {
        EXPECT_TRUE(SameBits(y.Read(), first_y)) << "offset " << offset;
        EXPECT_TRUE(SameBits(dx.Read(), first_dx)) << "offset " << offset;
      }
    }
  }
}

TEST_P(CudaMapTest, EqualMaximaAreRoutedAsInTheReference) {
  for (const MapCase& c : MapCases()) {
    if (c.kind != MapKind::kMaxPool || TooLarge(c.samples * c.input_size())) {
      continue;
    }
    SCOPED_TRACE(c.name);
    auto op = *Prepare(device_.get(), c);
    const auto plain = *Prepare(reference_.get(), c);
    auto x = ToFloats(UniformValues(c.samples * c.input_size(), 5));
    for (float& v : x) v = std::round(v);  // -1, 0 or 1.
    const std::vector<float> dy(c.samples * c.output_size(), 1);
    std::vector<float> y(dy.size()), want(x.size());
    ASSERT_TRUE(plain->Forward(c.samples, x.data(), y.data()).ok());
    ASSERT_TRUE(
        plain->Backward(c.samples, x.data(), y.data(), dy.data(), want.data())
            .ok());
    const auto at_x = Given(x, 0, InputOf(c)), at_y = Given(y, 0, OutputOf(c)),
               at_dy = Given(dy, 0, OutputOf(c)),
               dx = Unwritten(want.size(), 0, InputOf(c));
    ASSERT_TRUE(op->Backward(c.samples, at_x.data(), at_y.data(), at_dy.data(),
                             dx.data())
                    .ok());
    EXPECT_EQ(dx.Read(), want);  // Small whole numbers: exact.
  }
}

TEST_P(CudaMapTest, ActivationsWorkInPlace) {
  for (const MapCase& c : MapCases()) {
    const int64_t size = c.samples * c.input_size();
    if (!c.in_place() || TooLarge(size)) continue;
    SCOPED_TRACE(c.name);
    auto op = *Prepare(device_.get(), c);
    const auto x = Given(ToFloats(SpreadValues(size, 5))),
               dy = Given(ToFloats(UniformValues(size, 6))),
               y = Unwritten(size), dx = Unwritten(size);
    ASSERT_TRUE(op->Forward(c.samples, x.data(), y.data()).ok());
    ASSERT_TRUE(op->Forward(c.samples, x.data(), x.data()).ok());
    EXPECT_TRUE(SameBits(x.Read(), y.Read()));
    ASSERT_TRUE(
        op->Backward(c.samples, y.data(), y.data(), dy.data(), dx.data()).ok());
    ASSERT_TRUE(
        op->Backward(c.samples, x.data(), x.data(), dy.data(), dy.data()).ok());
    EXPECT_TRUE(SameBits(dy.Read(), dx.Read()));
  }
}

TEST_P(CudaMapTest, DropoutIsThatOfTheReferenceBitForBit) {
  for (const Plane& plane : {Plane{1, 1}, Plane{5, 1}, Plane{33, 1},
                             Plane{1025, 1}, Plane{1, 33}, Plane{5, 13}}) {
    const int64_t size = plane.channels * plane.pixels;
    for (int64_t samples : {0, 1, 3, 7}) {
      for (double rate : {0.0, 0.1, 0.5}) {
        auto op = *device_->Prepare(
            DropoutShape{plane.channels, plane.pixels, rate}, 7);
        auto plain = *reference_->Prepare(
            DropoutShape{plane.channels, plane.pixels, rate}, 7);
        const auto x = Rounded(ToFloats(UniformValues(samples * size, 5)));
        for (int64_t first : {0, 1, 2}) {
          for (int64_t offset : {0, 1}) {
            const Draw draw = {11 + (uint64_t{7} << 40), first};
            std::vector<float> want(x.size());
            ASSERT_TRUE(plain->SetDraw(draw).ok());
            ASSERT_TRUE(plain->Run(samples, x.data(), want.data()).ok());
            want = Rounded(want);
            const auto at_x = Given(x, offset, plane),
                       y = Unwritten(x.size(), 0, plane);
            ASSERT_TRUE(op->SetDraw(draw).ok());
            ASSERT_TRUE(op->Run(samples, at_x.data(), y.data()).ok());
            EXPECT_TRUE(SameBits(y.Read(), want)) << size << " n" << samples;
            ASSERT_TRUE(op->SetDraw(std::nullopt).ok());
            ASSERT_TRUE(op->Run(samples, at_x.data(), y.data()).ok());
            EXPECT_TRUE(SameBits(y.Read(), x));
            ASSERT_TRUE(op->SetDraw(draw).ok());
            ASSERT_TRUE(op->Run(samples, at_x.data(), at_x.data()).ok());
            EXPECT_TRUE(SameBits(at_x.Read(), want));
          }
        }
      }
    }
  }
}

TEST_P(CudaMapTest, SumsAreThoseOfTheReference) {
  for (int64_t size : {0, 1, 31, 1025}) {
    const auto a = Rounded(ToFloats(UniformValues(7 * size, 5)));
    const auto b = Rounded(ToFloats(UniformValues(7 * size, 6)));
    std::vector<float> want(a.size());
    const int64_t width = std::max<int64_t>(size, 1);
    const int64_t samples = size == 0 ? 0 : 7;
    for (bool relu : {false, true}) {
      auto op = *device_->Prepare(SumShape{width, relu}, 7);
      ASSERT_TRUE((*reference_->Prepare(SumShape{width, relu}, 7))
                      ->Run(samples, a.data(), b.data(), want.data())
                      .ok());
      for (int64_t offset : {0, 1}) {
        const auto at_a = Given(a), at_b = Given(b, offset);
        ASSERT_TRUE(
            op->Run(samples, at_a.data(), at_b.data(), at_a.data()).ok());
        EXPECT_TRUE(SameBits(at_a.Read(), Rounded(want)));
      }
    }
  }
}

TEST_P(CudaMapTest, WithReluTheBitsAreThoseOfReluBehindTheSum) {
  auto a = ToFloats(UniformValues(7 * 33, 5));
  auto b = ToFloats(UniformValues(7 * 33, 6));
  a[0] = std::nanf("");
  a[1] = b[1] = -0.0f;
  const auto at_a = Given(a), at_b = Given(b), sum = Unwritten(a.size());
  ASSERT_TRUE((*device_->Prepare(SumShape{33, false}, 7))
                  ->Run(7, at_a.data(), at_b.data(), sum.data())
                  .ok());
  ASSERT_TRUE((*device_->Prepare(SumShape{33, true}, 7))
                  ->Run(7, at_a.data(), at_b.data(), at_b.data())
                  .ok());
  EXPECT_TRUE(SameBits(at_b.Read(), ReluOfEach(sum.Read())));
}

std::vector<float> Times1024(std::vector<float> values) {
  for (float& value : values) value *= 1024;
  return values;
}

TEST_P(CudaMapTest, SoftmaxCrossEntropyAgreesWithTheReference) {
  for (const LossCase& c : LossCases()) {
    SCOPED_TRACE(testing::Message() << c.width << " n" << c.samples);
    const int64_t size = c.samples * c.width;
    const auto z = Rounded(ToFloats(SpreadValues(size, 8)));
    const auto labels = Labels(c.samples, c.width, 10);
    std::vector<float> want(size);
    auto op =
        *device_->Prepare(SoftmaxCrossEntropyShape{c.width}, c.samples + 1);
    auto plain =
        *reference_->Prepare(SoftmaxCrossEntropyShape{c.width}, c.samples + 1);
    const auto at_z = Given(z), dz = Unwritten(size);
    const OnDevice<int32_t> at_labels(device_.get(), labels);
    const auto a =
        op->Run(c.samples, at_z.data(), at_labels.data(), 1, dz.data());
    const auto b =
        plain->Run(c.samples, z.data(), labels.data(), 1, want.data());
    ASSERT_TRUE(a.ok()) << a.status();
    // expf is good to 2 units, and its argument, |z - m| <= 4, rounds once;
    // their sum is in double; p is at most 1, the loss is -log p.
    const double units = 8;
    const double share = 1.0 / std::max<int64_t>(c.samples, 1);
    EXPECT_NEAR(a->loss, b->loss, units * kUnit);
    EXPECT_EQ(a->correct, b->correct);
    const auto got = dz.Read();
    const double tolerance = units * kUnit * share;
    ExpectNearReference(got, want, tolerance, "dlogits");
    // Without a gradient; in place, and scaled.
    EXPECT_EQ(
        op->Run(c.samples, at_z.data(), at_labels.data(), 1, nullptr)->loss,
        a->loss);
    EXPECT_EQ(
        op->Run(c.samples, at_z.data(), at_labels.data(), 1024, at_z.data())
            ->loss,
        a->loss);
    ExpectNearReference(at_z.Read(), Times1024(want), 1024 * tolerance,
                        "scaled");
    // FP16's denormal numbers have fewer bits than what they are scaled to.
    if (precision() != Precision::kFp16) {
      EXPECT_TRUE(SameBits(at_z.Read(), Times1024(got)));
    }
  }
}

TEST_P(CudaMapTest, TheFirstOfEqualLogitsIsTheAnswer) {
  auto op = *device_->Prepare(SoftmaxCrossEntropyShape{70}, 2);
  std::vector<float> z(140, 1);
  z[69] = z[33] = z[34] = 2;
  const auto at_z = Given(z);
  for (const auto& [label, correct] : {std::pair{33, 1}, {34, 0}, {69, 0}}) {
    // The second sample's logits are all equal.
    const OnDevice<int32_t> labels(device_.get(), {label, 0});
    EXPECT_EQ(op->Run(2, at_z.data(), labels.data(), 1, nullptr)->correct,
              1 + correct)
        << label;
  }
}

TEST_P(CudaMapTest, MeanSquaredErrorAgreesWithTheReference) {
  for (const LossCase& c : LossCases()) {
    SCOPED_TRACE(testing::Message() << c.width << " n" << c.samples);
    const int64_t size = c.samples * c.width;
    const auto z = Rounded(ToFloats(SpreadValues(size, 8)));
    const auto t = ToFloats(UniformValues(size, 9));
    std::vector<float> want(size);
    auto op = *device_->Prepare(MeanSquaredErrorShape{c.width}, c.samples + 1);
    auto plain =
        *reference_->Prepare(MeanSquaredErrorShape{c.width}, c.samples + 1);
    const auto at_z = Given(z), dz = Unwritten(size);
    const Floats at_t(device_.get(), t);
    const auto a = op->Run(c.samples, at_z.data(), at_t.data(), 1, dz.data());
    const auto b = plain->Run(c.samples, z.data(), t.data(), 1, want.data());
    ASSERT_TRUE(a.ok()) << a.status();
    // The same in double but for the order of the sum.
    EXPECT_NEAR(a->loss, b->loss, size * 1e-15 * b->loss);
    EXPECT_TRUE(SameBits(dz.Read(), Rounded(want)));
    EXPECT_EQ(
        op->Run(c.samples, at_z.data(), at_t.data(), 1024, at_z.data())->loss,
        a->loss);
    EXPECT_TRUE(SameBits(at_z.Read(), Rounded(Times1024(want))));
  }
}

TEST_P(CudaMapTest, NanIsTheMaximumOfItsWindowWhereverItLies) {
  constexpr int64_t kChannels = 8;
  // One window a channel, of all four pixels.
  const PoolShape shape = {.channels = kChannels,
                           .height = 2,
                           .width = 2,
                           .kernel = 3,
                           .stride = 3,
                           .padding = 1};
  const auto op = *device_->Prepare(shape, 1);
  const auto dy =
      Given(std::vector<float>(kChannels, 5), 0, Plane{kChannels, 1});
  for (int64_t place = 0; place < 4; ++place) {
    std::vector<float> values(4 * kChannels, 1), want(4 * kChannels);
    for (int64_t c = 0; c < kChannels; ++c) {
      values[4 * c + place] = std::numeric_limits<float>::quiet_NaN();
      want[4 * c + place] = 5;
    }
    const auto x = Given(values, 0, Plane{kChannels, 4}),
               y = Unwritten(kChannels, 0, Plane{kChannels, 1}),
               dx = Unwritten(4 * kChannels, 0, Plane{kChannels, 4});
    ASSERT_TRUE(op->Forward(1, x.data(), y.data()).ok());
    for (const float v : y.Read()) EXPECT_TRUE(std::isnan(v)) << place;
    ASSERT_TRUE(op->Backward(1, x.data(), y.data(), dy.data(), dx.data()).ok());
    EXPECT_EQ(dx.Read(), want) << place;
  }
}

TEST_P(CudaMapTest, NanReachesTheLoss) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto x = Given({nan});
  ASSERT_TRUE((*device_->Prepare(ActivationShape{ActivationKind::kRelu, 1}, 1))
                  ->Forward(1, x.data(), x.data())
                  .ok());
  EXPECT_TRUE(std::isnan(x.Read()[0]));
  for (int place : {0, 1, 40}) {
    std::vector<float> logits(41);
    logits[place] = nan;
    const auto at = Given(logits);
    const OnDevice<int32_t> labels(device_.get(), {1});
    const auto result = (*device_->Prepare(SoftmaxCrossEntropyShape{41}, 1))
                            ->Run(1, at.data(), labels.data(), 1, nullptr);
    EXPECT_TRUE(std::isnan(result->loss)) << place;
  }
}

TEST_P(CudaMapTest, AnArrayThatIsTooLargeIsRefused) {
  const auto refused = device_->Prepare(
      ActivationShape{ActivationKind::kRelu, int64_t{1} << 20}, 1 << 11);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.status().message(),
            "relu 1048576: 2048 samples of 1048576 floats are more than the "
            "CUDA device's 2147483647 of an array; take a smaller micro-batch");
}

}  // namespace
}  // namespace sluice::kernels
