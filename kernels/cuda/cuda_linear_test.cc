// Dense and conv2d of the CUDA device against the reference, and their bits.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/testing/cuda_testing.h"

namespace sluice::kernels {
namespace {

class CudaLinearTest : public CudaTest {
 protected:
  bool TooLargeFor(const LinearCase& c) const {
    // Emulated casts cost more than emulated products.
    const double most = Is16Bit(precision()) ? 4e5 : 4e6;
    return !on_gpu() && c.operations() > most;
  }

  LinearRun Arguments(const LinearCase& c) const {
    LinearRun run = LinearArguments(c);
    run.x = Rounded(run.x);
    run.dy = Rounded(run.dy);
    return run;
  }
  // On the device.
  void Execute(LinearOp* op, const LinearCase& c, int64_t offset,
               LinearRun* run) {
    ExecuteOn(device_.get(), precision(), op, c, offset, run);
  }
  // Runs both directions on a device that has activations in `precision`; every
  // array begins `offset` numbers after a multiple of 256 bytes. Outputs hold
  // NaN before, which must not shine through.
  static void ExecuteOn(Device* device, Precision precision, LinearOp* op,
                        const LinearCase& c, int64_t offset, LinearRun* run);
};
SLUICE_CUDA_PRECISIONS_TEST_SUITE(CudaLinearTest);

struct ImageSize {
  int64_t channels, pixels;
};
ImageSize InputOf(const LinearCase& c) {
  const auto* conv = std::get_if<Conv2dShape>(&c.shape);
  if (conv == nullptr) return {c.input_size(), 1};
  return {conv->inputs, conv->height * conv->width};
}
ImageSize OutputOf(const LinearCase& c) {
  const auto* conv = std::get_if<Conv2dShape>(&c.shape);
  if (conv == nullptr) return {c.output_size(), 1};
  return {conv->outputs, conv->output_height() * conv->output_width()};
}

void CudaLinearTest::ExecuteOn(Device* device, Precision precision,
                               LinearOp* op, const LinearCase& c,
                               int64_t offset, LinearRun* run) {
  const ImageSize in = InputOf(c), out = OutputOf(c);
  const Floats w(device, run->w, offset), b(device, run->b, offset);
  const Activations x(device, precision, run->x, offset, in.channels,
                      in.pixels);
  const Activations dy(device, precision, run->dy, offset, out.channels,
                       out.pixels);
  const auto y =
      Activations::Unwritten(device, precision, c.samples * c.output_size(),
                             offset, out.channels, out.pixels);
  const auto dx =
      Activations::Unwritten(device, precision, c.samples * c.input_size(),
                             offset, in.channels, in.pixels);
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

// In 16 bits x and dy are given so. Weights are rounded, and results: y once
// more behind a bias that is added by itself; the gradients of filters, but not
// those of a dense layer.
ProductRounding::Times TimesOf(const LinearCase& c) {
  const bool dense = std::holds_alternative<DenseShape>(c.shape);
  return {.y = 3, .dx = 2, .dw = dense ? 0 : 1};
}

TEST_P(CudaLinearTest, LinearOperationsAgreeWithTheReference) {
  for (const LinearCase& c : LinearCases()) {
    if (TooLargeFor(c)) continue;
    SCOPED_TRACE(c.name);
    LinearRun got = Arguments(c), want = got;
    LinearRun size = MagnitudesOf(got);
    auto op = Prepare(device_.get(), c);
    ASSERT_TRUE(op.ok()) << op.status();
    const auto plain = *Prepare(reference_.get(), c);
    Execute(op->get(), c, 0, &got);
    ExecuteOn(reference_.get(), Precision::kFp32, plain.get(), c, 0, &want);
    ExecuteOn(reference_.get(), Precision::kFp32, plain.get(), c, 0, &size);
    ProductRounding off = rounding();
    if (Is16Bit(precision())) off.times = TimesOf(c);
    ExpectWithinRounding(c, got, want, size, off);
  }
}

TEST_P(CudaLinearTest, BitsDoNotDependOnAlignmentNorOnWhatRanBefore) {
  for (const LinearCase& c : LinearCases()) {
    if (TooLargeFor(c)) continue;
    SCOPED_TRACE(c.name);
    auto op = *Prepare(device_.get(), c);
    auto fresh = *Prepare(device_.get(), c);
    LinearRun first = Arguments(c);
    LinearRun moved = first, anew = first;
    Execute(op.get(), c, 0, &first);
    for (int64_t offset : {1, 6}) {
      Execute(op.get(), c, offset, &moved);
      ExpectSameBits(first, moved);
    }
    Execute(fresh.get(), c, 3, &anew);
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
    LinearRun full = Arguments(c);
    LinearRun got = Arguments(shorter), want = got;
    Execute(op.get(), c, 0, &full);
    Execute(op.get(), shorter, 0, &got);
    Execute(exact.get(), shorter, 0, &want);
    ExpectSameBits(got, want);
    // More sizes than the operation keeps prepared at once.
    for (int64_t n = 1; n <= std::min<int64_t>(c.samples, 6); ++n) {
      LinearCase some = c;
      some.samples = n;
      LinearRun run = Arguments(some);
      Execute(op.get(), some, 0, &run);
    }
    LinearRun again = Arguments(c);
    Execute(op.get(), c, 0, &again);
    ExpectSameBits(full, again);
  }
}

TEST_P(CudaLinearTest, WithReluTheBitsAreThoseOfReluBehindIt) {
  for (const LinearCase& c : LinearCases()) {
    if (TooLargeFor(c)) continue;
    SCOPED_TRACE(c.name);
    LinearRun without = Arguments(c);
    if (!without.x.empty()) without.x[0] = std::nanf("");
    LinearRun with = without;
    const auto plain = *Prepare(device_.get(), c);
    const auto op = *Prepare(device_.get(), WithRelu(c));
    Execute(plain.get(), c, 1, &without);
    Execute(op.get(), c, 1, &with);
    ExpectReluOf(without, with);
  }
}

TEST_P(CudaLinearTest, TheGradientAtTheInputMayBeLeftOut) {
  for (const LinearCase& c : LinearCases()) {
    if (TooLargeFor(c)) continue;
    SCOPED_TRACE(c.name);
    auto op = *Prepare(device_.get(), c);
    LinearRun run = Arguments(c);
    Execute(op.get(), c, 0, &run);
    const ImageSize in = InputOf(c), out = OutputOf(c);
    const Floats w(device_.get(), run.w);
    const Activations x(device_.get(), precision(), run.x, 0, in.channels,
                        in.pixels);
    const Activations dy(device_.get(), precision(), run.dy, 0, out.channels,
                         out.pixels);
    const auto dw = Floats::Unwritten(device_.get(), c.weight_size());
    const auto db = Floats::Unwritten(device_.get(), c.bias_size());
    ASSERT_TRUE(op->Backward(c.samples, x.data(), w.data(), dy.data(), nullptr,
                             dw.data(), c.bias_size() > 0 ? db.data() : nullptr)
                    .ok());
    EXPECT_TRUE(SameBits(dw.Read(), run.dw));
    EXPECT_TRUE(SameBits(db.Read(), run.db));
  }
}

// w - 1 for each weight w, by an operation of as many outputs: with the inputs
// 1 and -1, the former times w, the latter times 1, and six zeros. What a
// weight is rounded to is seen in the difference, whatever that is stored as.
std::vector<float> LessOne(Device* device, Precision precision, LinearOp* op,
                           const std::vector<float>& w) {
  std::vector<float> weights(8 * w.size());
  for (size_t i = 0; i < w.size(); ++i) {
    weights[8 * i] = w[i];
    weights[8 * i + 1] = 1;
  }
  const Activations x(device, precision, {1, -1, 0, 0, 0, 0, 0, 0});
  const auto y = Activations::Unwritten(device, precision, w.size());
  EXPECT_TRUE(op->Forward(1, x.data(), Floats(device, weights).data(), nullptr,
                          y.data())
                  .ok());
  return y.Read();
}

std::vector<float> LessOneByDense(Device* device, Precision precision,
                                  const std::vector<float>& w) {
  const auto outputs = static_cast<int64_t>(w.size());
  auto op = *device->Prepare(DenseShape{8, outputs, false}, 1);
  return LessOne(device, precision, op.get(), w);
}

// With a stride of 1 it is a dense layer of each pixel.
std::vector<float> LessOneByConvolution(Device* device, Precision precision,
                                        int64_t stride,
                                        const std::vector<float>& w) {
  const auto outputs = static_cast<int64_t>(w.size());
  auto op =
      *device->Prepare(Conv2dShape{8, 1, 1, outputs, 1, stride, 0, false}, 1);
  return LessOne(device, precision, op.get(), w);
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
  const std::vector<float> w = Fine();
  const auto y = LessOneByDense(device_.get(), precision(), w);
  for (size_t i = 0; i < w.size(); ++i) {
    ExpectRounded(precision(), on_gpu(), w[i], 1 + y[i]);
  }
}

// And not computed in FP32, as what a library refuses is.
TEST_P(CudaLinearTest, SoAreAConvolutions) {
  const bool refused = GetParam().where == Where::kEmulatedAlone;
  const std::vector<float> w = Fine();
  const auto y = LessOneByConvolution(device_.get(), precision(), 2, w);
  for (size_t i = 0; i < w.size(); ++i) {
    if (refused) {
      ASSERT_EQ(y[i], Rounded({w[i] - 1})[0]);
    } else {
      ExpectRounded(precision(), on_gpu(), w[i], 1 + y[i]);
    }
  }
}

TEST_P(CudaLinearTest, ConvolutionsOfSinglePixelsIn16BitsAreDense) {
  if (!Is16Bit(precision())) return;  // Channels are first.
  const std::vector<float> w = Fine();
  EXPECT_EQ(LessOneByConvolution(device_.get(), precision(), 1, w),
            LessOneByDense(device_.get(), precision(), w));
}

TEST_P(CudaLinearTest, TheDescriptionNamesThePrecision) {
  const std::string text = device_->Description();
  const std::string end = std::string(", ") + NameOf(precision()) + ")";
  EXPECT_EQ(text.substr(0, 6), "cuda (");
  EXPECT_EQ(text.substr(text.size() - end.size()), end);
}

// y of a convolution of one pixel: x0 w0 + x1 w1.
float TwoProducts(Device* device, Precision precision, std::vector<float> x,
                  std::vector<float> w) {
  auto op = *device->Prepare(Conv2dShape{2, 1, 1, 1, 1, 2, 0, false}, 1);
  const auto y = Activations::Unwritten(device, precision, 1);
  EXPECT_TRUE(op->Forward(1, Activations(device, precision, x, 0, 2).data(),
                          Floats(device, w).data(), nullptr, y.data())
                  .ok());
  return y.Read()[0];
}

TEST(CudaPrecisionTest, ConvolutionsOfAnyChannelsComputeIn16Bits) {
  const auto bf16 = cuda::MakeEmulatedGpu(true, Precision::kBf16);
  const auto fp16 = cuda::MakeEmulatedGpu(true, Precision::kFp16);
  const std::vector<float> x = {1, -1};
  const auto of_bf16 = [&](float w) {
    return TwoProducts(bf16.get(), Precision::kBf16, x, {w, 1});
  };
  const auto of_fp16 = [&](float w) {
    return TwoProducts(fp16.get(), Precision::kFp16, x, {w, 1});
  };
  EXPECT_EQ(of_bf16(1 + 0x1p-7), 0x1p-7);
  EXPECT_EQ(of_bf16(1 + 0x1p-9), 0);
  EXPECT_EQ(of_fp16(1 + 0x1p-9), 0x1p-9);
  EXPECT_EQ(of_fp16(1 + 0x1p-12), 0);
  // So does their result.
  EXPECT_EQ(TwoProducts(fp16.get(), Precision::kFp16, {256, 0}, {256, 0}),
            std::numeric_limits<float>::infinity());
}

TEST(CudaPrecisionTest, WhatTheLibrariesRefuseIn16BitsIsComputedInFp32) {
  const auto device = cuda::MakeEmulatedGpu(false, Precision::kBf16);
  const std::vector<float> x = {1, -1}, w = {1 + 0x1p-20, 1};
  EXPECT_EQ(TwoProducts(device.get(), Precision::kBf16, x, w), 0x1p-20);
  const auto dense = *device->Prepare(DenseShape{2, 1, false}, 1);
  const auto y = Activations::Unwritten(device.get(), Precision::kBf16, 1);
  ASSERT_TRUE(
      dense
          ->Forward(1,
                    Activations(device.get(), Precision::kBf16, x, 0, 2).data(),
                    Floats(device.get(), w).data(), nullptr, y.data())
          .ok());
  EXPECT_EQ(y.Read()[0], 0x1p-20);
  // What they do not refuse is not.
  EXPECT_EQ(LessOneByDense(device.get(), Precision::kBf16,
                           std::vector<float>(8, 1 + 0x1p-20)),
            std::vector<float>(8, 0));
}

// What brings inputs and images into another order, in 16 bits; nothing where
// activations are floats.
TEST_P(CudaLinearTest, InputsGetTheirChannelsLastAndAreFlattenedBack) {
  constexpr int64_t kSamples = 3, kChannels = 5, kPixels = 7;
  const auto input =
      *device_->Prepare(InputShape{kChannels, kPixels}, kSamples);
  const auto flatten =
      *device_->Prepare(FlattenShape{kChannels, kPixels}, kSamples);
  ASSERT_EQ(input != nullptr, Is16Bit(precision()));
  ASSERT_EQ(flatten != nullptr, Is16Bit(precision()));
  EXPECT_EQ(device_->activation_bytes(), Is16Bit(precision()) ? 2 : 4);
  if (input == nullptr) return;
  const auto values =
      ToFloats(UniformValues(kSamples * kChannels * kPixels, 1));
  const auto images = Activations::Unwritten(
      device_.get(), precision(), values.size(), 0, kChannels, kPixels);
  ASSERT_TRUE(
      input->Run(kSamples, Floats(device_.get(), values).data(), images.data())
          .ok());
  EXPECT_EQ(images.Read(), Rounded(values));
  const auto rows =
      Activations::Unwritten(device_.get(), precision(), values.size());
  ASSERT_TRUE(flatten->Forward(kSamples, images.data(), rows.data()).ok());
  EXPECT_EQ(rows.Read(), Rounded(values));
  const auto back = Activations::Unwritten(
      device_.get(), precision(), values.size(), 0, kChannels, kPixels);
  ASSERT_TRUE(flatten
                  ->Backward(kSamples, images.data(), rows.data(), rows.data(),
                             back.data())
                  .ok());
  EXPECT_EQ(back.Read(), Rounded(values));
}

}  // namespace
}  // namespace sluice::kernels
