// Dense and conv2d of the CUDA device against the reference, and their bits.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/cuda_testing.h"

namespace sluice::kernels {
namespace {

class CudaLinearTest : public CudaTest {
 protected:
  bool TooLargeFor(const LinearCase& c) const {
    // Emulated casts cost more than emulated products.
    const double most = Is16Bit(precision()) ? 4e5 : 4e6;
    return !on_gpu() && c.operations() > most;
  }
};
SLUICE_CUDA_PRECISIONS_TEST_SUITE(CudaLinearTest);

// Runs both directions; every array begins `offset` floats after a multiple of
// 256 bytes. Outputs hold NaN before, which must not shine through.
void Execute(Device* device, LinearOp* op, const LinearCase& c, int64_t offset,
             LinearRun* run) {
  const Floats x(device, run->x, offset), w(device, run->w, offset),
      b(device, run->b, offset), dy(device, run->dy, offset);
  const auto y = Floats::Unwritten(device, c.samples * c.output_size(), offset);
  const auto dx = Floats::Unwritten(device, c.samples * c.input_size(), offset);
  const auto dw = Floats::Unwritten(device, c.weight_size(), offset);
  const auto db = Floats::Unwritten(device, c.bias_size(), offset);
  const bool bias = c.bias_size() > 0;
  const auto forward = op->Forward(c.samples, x.data(), w.data(),
                                   bias ? b.data() : nullptr, y.data());
  ASSERT_TRUE(forward.ok()) << forward;
  const auto backward =
      op->Backward(c.samples, x.data(), w.data(), dy.data(), dx.data(),
                   dw.data(), bias ? db.data() : nullptr);
  ASSERT_TRUE(backward.ok()) << backward;
  run->y = y.Read();
  run->dx = dx.Read();
  run->dw = dw.Read();
  run->db = db.Read();
}

TEST_P(CudaLinearTest, LinearOperationsAgreeWithTheReference) {
  for (const LinearCase& c : LinearCases()) {
    if (TooLargeFor(c)) continue;
    SCOPED_TRACE(c.name);
    LinearRun got = LinearArguments(c), want = got;
    LinearRun size = MagnitudesOf(got);
    auto op = Prepare(device_.get(), c);
    ASSERT_TRUE(op.ok()) << op.status();
    const auto plain = *Prepare(reference_.get(), c);
    Execute(device_.get(), op->get(), c, 0, &got);
    Execute(reference_.get(), plain.get(), c, 0, &want);
    Execute(reference_.get(), plain.get(), c, 0, &size);
    ExpectWithinRounding(c, got, want, size, rounding());
  }
}

TEST_P(CudaLinearTest, BitsDoNotDependOnAlignmentNorOnWhatRanBefore) {
  for (const LinearCase& c : LinearCases()) {
    if (TooLargeFor(c)) continue;
    SCOPED_TRACE(c.name);
    auto op = *Prepare(device_.get(), c);
    auto fresh = *Prepare(device_.get(), c);
    LinearRun first = LinearArguments(c);
    LinearRun moved = first, anew = first;
    Execute(device_.get(), op.get(), c, 0, &first);
    for (int64_t offset : {1, 6}) {
      Execute(device_.get(), op.get(), c, offset, &moved);
      ExpectSameBits(first, moved);
    }
    Execute(device_.get(), fresh.get(), c, 3, &anew);
    ExpectSameBits(first, anew);
  }
}

TEST_P(CudaLinearTest, AShortBatchGivesTheBitsOfAnOperationPreparedForIt) {
  for (const LinearCase& c : LinearCases()) {
    if (c.samples < 3 || TooLargeFor(c)) continue;
    SCOPED_TRACE(c.name);
    auto op = *Prepare(device_.get(), c);
    LinearCase shorter = c;
    shorter.samples = c.samples - 2;
    auto exact = *Prepare(device_.get(), shorter);
    LinearRun full = LinearArguments(c);
    LinearRun got = LinearArguments(shorter), want = got;
    Execute(device_.get(), op.get(), c, 0, &full);
    Execute(device_.get(), op.get(), shorter, 0, &got);
    Execute(device_.get(), exact.get(), shorter, 0, &want);
    ExpectSameBits(got, want);
    // More sizes than the operation keeps prepared at once.
    for (int64_t n = 1; n <= std::min<int64_t>(c.samples, 6); ++n) {
      LinearCase some = c;
      some.samples = n;
      LinearRun run = LinearArguments(some);
      Execute(device_.get(), op.get(), some, 0, &run);
    }
    LinearRun again = LinearArguments(c);
    Execute(device_.get(), op.get(), c, 0, &again);
    ExpectSameBits(full, again);
  }
}

TEST_P(CudaLinearTest, WithReluTheBitsAreThoseOfReluBehindIt) {
  for (const LinearCase& c : LinearCases()) {
    if (TooLargeFor(c)) continue;
    SCOPED_TRACE(c.name);
    LinearRun without = LinearArguments(c);
    if (!without.x.empty()) without.x[0] = std::nanf("");
    LinearRun with = without;
    const auto plain = *Prepare(device_.get(), c);
    const auto op = *Prepare(device_.get(), WithRelu(c));
    Execute(device_.get(), plain.get(), c, 1, &without);
    Execute(device_.get(), op.get(), c, 1, &with);
    ExpectReluOf(without, with);
  }
}

TEST_P(CudaLinearTest, TheGradientAtTheInputMayBeLeftOut) {
  for (const LinearCase& c : LinearCases()) {
    if (TooLargeFor(c)) continue;
    SCOPED_TRACE(c.name);
    auto op = *Prepare(device_.get(), c);
    LinearRun run = LinearArguments(c);
    Execute(device_.get(), op.get(), c, 0, &run);
    const Floats x(device_.get(), run.x), w(device_.get(), run.w),
        dy(device_.get(), run.dy);
    const auto dw = Floats::Unwritten(device_.get(), c.weight_size());
    const auto db = Floats::Unwritten(device_.get(), c.bias_size());
    ASSERT_TRUE(op->Backward(c.samples, x.data(), w.data(), dy.data(), nullptr,
                             dw.data(), c.bias_size() > 0 ? db.data() : nullptr)
                    .ok());
    EXPECT_TRUE(SameBits(dw.Read(), run.dw));
    EXPECT_TRUE(SameBits(db.Read(), run.db));
  }
}

// `x`, rows of 8, by a dense layer of 8 that leaves them as they are.
std::vector<float> ThroughIdentity(Device* device,
                                   const std::vector<float>& x) {
  const auto samples = static_cast<int64_t>(x.size() / 8);
  std::vector<float> identity(64);
  for (int i = 0; i < 8; ++i) identity[9 * i] = 1;
  auto op = *device->PrepareDense({8, 8, false}, samples);
  const auto y = Floats::Unwritten(device, samples * 8);
  EXPECT_TRUE(op->Forward(samples, Floats(device, x).data(),
                          Floats(device, identity).data(), nullptr, y.data())
                  .ok());
  return y.Read();
}

// The same by a convolution of one pixel and 8 channels; channels first.
std::vector<float> ThroughConvolution(Device* device,
                                      const std::vector<float>& x) {
  const auto width = static_cast<int64_t>(x.size() / 8);
  std::vector<float> identity(64);
  for (int i = 0; i < 8; ++i) identity[9 * i] = 1;
  auto op = *device->PrepareConv2d({8, 1, width, 8, 1, 1, 0, false}, 1);
  const auto y = Floats::Unwritten(device, width * 8);
  EXPECT_TRUE(op->Forward(1, Floats(device, x).data(),
                          Floats(device, identity).data(), nullptr, y.data())
                  .ok());
  return y.Read();
}

// 1 to 2 with 13 bits behind the point.
std::vector<float> Fine() {
  std::vector<float> x;
  for (int i = 0; i < 1 << 13; ++i) x.push_back(1 + std::ldexp(i, -13));
  return x;
}

// `may_stay`: in TF32 a GPU's libraries may leave a factor as it is.
void ExpectRounded(Precision precision, bool may_stay, float x, float y) {
  switch (precision) {
    case Precision::kFp32:
      ASSERT_EQ(y, x);
      break;
    case Precision::kTf32:
      // Bits behind the tenth are not looked at, or rounded.
      ASSERT_TRUE((may_stay && y == x) ||
                  std::ldexp(y, 10) == std::round(std::ldexp(y, 10)));
      ASSERT_LT(std::abs(y - x), 0x1p-10);
      break;
    case Precision::kBf16:
      // To the nearest, the middle to the even one.
      ASSERT_EQ(y, std::ldexp(std::nearbyint(std::ldexp(x, 7)), -7));
      break;
    case Precision::kFp16:
      ASSERT_EQ(y, std::ldexp(std::nearbyint(std::ldexp(x, 10)), -10));
      break;
  }
}

TEST_P(CudaLinearTest, FactorsAreRoundedToTheDevicesPrecision) {
  const std::vector<float> x = Fine();
  const auto y = ThroughIdentity(device_.get(), x);
  for (size_t i = 0; i < x.size(); ++i) {
    ExpectRounded(precision(), on_gpu(), x[i], y[i]);
  }
}

// And not computed in FP32, as what a library refuses is.
TEST_P(CudaLinearTest, SoAreAConvolutions) {
  const bool refused = GetParam().where == Where::kEmulatedAlone;
  const std::vector<float> x = Fine();
  const auto y = ThroughConvolution(device_.get(), x);
  for (size_t i = 0; i < x.size(); ++i) {
    ExpectRounded(refused ? Precision::kFp32 : precision(), on_gpu(), x[i],
                  y[i]);
  }
}

TEST_P(CudaLinearTest, TheDescriptionNamesThePrecision) {
  const std::string text = device_->Description();
  const std::string end = std::string(", ") + NameOf(precision()) + ")";
  EXPECT_EQ(text.substr(0, 6), "cuda (");
  EXPECT_EQ(text.substr(text.size() - end.size()), end);
}

// y of a convolution of one pixel and one product.
float OneProduct(Device* device, float x, float w) {
  auto op = *device->PrepareConv2d({1, 1, 1, 1, 1, 1, 0, false}, 1);
  const auto y = Floats::Unwritten(device, 1);
  EXPECT_TRUE(op->Forward(1, Floats(device, {x}).data(),
                          Floats(device, {w}).data(), nullptr, y.data())
                  .ok());
  return y.Read()[0];
}

TEST(CudaPrecisionTest, ConvolutionsOfAnyChannelsComputeIn16Bits) {
  const auto bf16 =
      cuda::MakeDeviceOn(cuda::MakeEmulatedBackend(true), Precision::kBf16);
  const auto fp16 =
      cuda::MakeDeviceOn(cuda::MakeEmulatedBackend(true), Precision::kFp16);
  EXPECT_EQ(OneProduct(bf16.get(), 1 + 0x1p-9, 1), 1);
  EXPECT_EQ(OneProduct(fp16.get(), 1 + 0x1p-9, 1), 1 + 0x1p-9);
  EXPECT_EQ(OneProduct(fp16.get(), 1, 1 + 0x1p-12), 1);
  // So does their result.
  EXPECT_EQ(OneProduct(fp16.get(), 256, 256),
            std::numeric_limits<float>::infinity());
}

TEST(CudaPrecisionTest, WhatTheLibrariesRefuseIn16BitsIsComputedInFp32) {
  const auto device =
      cuda::MakeDeviceOn(cuda::MakeEmulatedBackend(false), Precision::kBf16);
  EXPECT_EQ(OneProduct(device.get(), 1 + 0x1p-20, 1), 1 + 0x1p-20);
  const auto dense = *device->PrepareDense({1, 1, false}, 1);
  const Floats x(device.get(), {1 + 0x1p-20}), w(device.get(), {1});
  const auto y = Floats::Unwritten(device.get(), 1);
  ASSERT_TRUE(dense->Forward(1, x.data(), w.data(), nullptr, y.data()).ok());
  EXPECT_EQ(y.Read()[0], 1 + 0x1p-20);
  // What they do not refuse is not.
  EXPECT_EQ(ThroughIdentity(device.get(), std::vector<float>(8, 1 + 0x1p-20)),
            std::vector<float>(8, 1));
}

}  // namespace
}  // namespace sluice::kernels
