#include "kernels/testing/vector_runs.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "kernels/optimizer_kernels.h"
#include "kernels/testing/comparison.h"
#include "kernels/testing/on_device.h"
#include "kernels/testing/op_cases.h"

namespace sluice::kernels {
namespace {

// Such that products and sums round.
constexpr float kFactor = 0.3f;

std::unique_ptr<VectorOp> Prepare(Device* device, const VectorCase& c) {
  auto op = device->PrepareVector(c.ranges);
  EXPECT_TRUE(op.ok()) << op.status();
  return op.ok() ? *std::move(op) : nullptr;
}

std::vector<float> Random(const VectorCase& c, uint64_t seed) {
  return ToFloats(UniformValues(c.size, seed));
}

// NaN where no range is.
std::vector<float> OnlyRanges(const VectorCase& c, std::vector<float> values) {
  std::vector<float> only(c.size, std::nanf(""));
  for (const ParameterRange& range : c.ranges) {
    for (int64_t i = range.begin; i < range.end; ++i) only[i] = values[i];
  }
  return only;
}

// y, and f(x, y) of the floats in ranges and `within`.
template <typename F>
std::vector<float> Applied(const VectorCase& c, const ParameterRange& within,
                           const F& f, const std::vector<float>& x,
                           std::vector<float> y) {
  for (const ParameterRange& range : c.ranges) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      if (within.begin <= i && i < within.end) y[i] = f(x[i], y[i]);
    }
  }
  return y;
}

float Product(float x, float) { return kFactor * x; }
float Fma(float x, float y) { return std::fma(kFactor, x, y); }

}  // namespace

void ExpectScaleAndAddAreTheirFormulas(Device* device, const VectorCase& c,
                                       int64_t x_offset, int64_t y_offset) {
  SCOPED_TRACE(testing::Message()
               << c.name << ", offsets " << x_offset << " and " << y_offset);
  const auto op = Prepare(device, c);
  ASSERT_NE(op, nullptr);
  const auto x = OnlyRanges(c, Random(c, 1)), y = Random(c, 2);
  const Floats at_x(device, x, x_offset), at_y(device, y, y_offset);
  for (const ParameterRange& within : WithinsOf(c)) {
    SCOPED_TRACE(testing::Message()
                 << "within " << within.begin << " to " << within.end);
    at_y.Write(y);
    ASSERT_TRUE(op->Scale(within, kFactor, at_x.data(), at_y.data()).ok());
    EXPECT_TRUE(SameBits(at_y.Read(), Applied(c, within, Product, x, y)));
    at_y.Write(y);
    ASSERT_TRUE(op->Add(within, kFactor, at_x.data(), at_y.data()).ok());
    EXPECT_TRUE(SameBits(at_y.Read(), Applied(c, within, Fma, x, y)));
    at_y.Write(y);
    ASSERT_TRUE(op->Scale(within, kFactor, at_y.data(), at_y.data()).ok());
    EXPECT_TRUE(SameBits(at_y.Read(), Applied(c, within, Product, y, y)));
  }
  EXPECT_TRUE(SameBits(at_x.Read(), x));
}

void ExpectRangesFarBehindAreComputed(Device* device) {
  constexpr int64_t kBegin = (int64_t{1} << 33) + 3;
  const VectorCase far = {"far", 0, {{kBegin, kBegin + 9000}}};
  const VectorCase near = {"near", 9000, {{0, 9000}}};
  const auto op = Prepare(device, far);
  ASSERT_NE(op, nullptr);
  const auto x = Random(near, 1), y = Random(near, 2);
  const Floats at_x(device, x), at_y(device, y);
  // Where the vector would begin.
  const auto begin_of = [](const Floats& range) {
    return reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(range.data()) -
                                    kBegin * sizeof(float));
  };
  const ParameterRange within = {kBegin + 5, kBegin + 8999};
  ASSERT_TRUE(op->Add(within, kFactor, begin_of(at_x), begin_of(at_y)).ok());
  EXPECT_TRUE(SameBits(at_y.Read(), Applied(near, {5, 8999}, Fma, x, y)));
  double want = 0;
  for (const float v : x) want += static_cast<double>(v) * v;
  const auto sum = op->SumOfSquares(begin_of(at_x));
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_NEAR(*sum, want, 2 * 9000 * 0x1p-53 * want);
}

void ExpectAddIsAStepOfSgd(Device* device) {
  const VectorCase c = {"one range", 1025, {{0, 1025}}};
  const auto op = Prepare(device, c);
  ASSERT_NE(op, nullptr);
  const auto gradient = Random(c, 1), weights = Random(c, 2);
  const Floats at_gradient(device, gradient), at_weights(device, weights);
  ASSERT_TRUE(
      op->Add({0, c.size}, -kFactor, at_gradient.data(), at_weights.data())
          .ok());
  const float one = 1;
  const float* const from = gradient.data();
  std::vector<float> updated(c.size);
  SgdUpdate({.learning_rate = kFactor},
            {.gradients = absl::MakeSpan(&from, 1),
             .factors = absl::MakeSpan(&one, 1)},
            c.size, weights.data(), nullptr, updated.data());
  EXPECT_TRUE(SameBits(at_weights.Read(), updated));
}

double ExpectSumOfSquares(Device* device, const VectorCase& c, int64_t offset) {
  SCOPED_TRACE(testing::Message() << c.name << ", offset " << offset);
  const auto op = Prepare(device, c);
  EXPECT_NE(op, nullptr);
  if (op == nullptr) return 0;
  auto x = OnlyRanges(c, Random(c, 3));
  // Of many sizes, so that their squares' sum rounds, in each order otherwise.
  for (int64_t i = 0; i < c.size; ++i) x[i] = std::ldexp(x[i], i * 7 % 40 - 20);
  const Floats at_x(device, x, offset);
  const auto sum = op->SumOfSquares(at_x.data());
  EXPECT_TRUE(sum.ok()) << sum.status();
  if (!sum.ok()) return 0;
  double want = 0;
  for (const ParameterRange& range : c.ranges) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      want += static_cast<double>(x[i]) * x[i];
    }
  }
  // A square of a float is exact in double. Adding n numbers that are not
  // negative in any order is off by at most n - 1 units of 2^-53 of their sum
  // (Higham, Accuracy and Stability, 4.2), and `want` is, too; the second order
  // is less than the unit that is left of each.
  const double units = 2 * static_cast<double>(c.floats());
  EXPECT_NEAR(*sum, want, units * 0x1p-53 * want);
  EXPECT_TRUE(SameBits(at_x.Read(), x));
  return *sum;
}

void ExpectNonFiniteWhereAFloatIs(Device* device, const VectorCase& c) {
  SCOPED_TRACE(c.name);
  const auto op = Prepare(device, c);
  ASSERT_NE(op, nullptr);
  using Limits = std::numeric_limits<float>;
  const auto largest =
      OnlyRanges(c, std::vector<float>(c.size, -Limits::max()));
  const Floats at_x(device, largest);
  const auto is_finite = [&] {
    return std::isfinite(*op->SumOfSquares(at_x.data()));
  };
  EXPECT_TRUE(is_finite());
  int64_t times = 0;
  for (const ParameterRange& range : c.ranges) {
    for (const int64_t i :
         {range.begin, range.begin + range.size() / 3, range.end - 1}) {
      const float values[] = {Limits::quiet_NaN(), Limits::infinity(),
                              -Limits::infinity()};
      auto x = largest;
      x[i] = values[times++ % 3];
      at_x.Write(x);
      EXPECT_FALSE(is_finite()) << x[i] << " at " << i;
    }
  }
}

}  // namespace sluice::kernels
