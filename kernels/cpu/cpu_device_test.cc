#include "kernels/cpu/cpu_device.h"

#include <gnu/libc-version.h>

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_testing.h"
#include "kernels/reference/reference_device.h"
#include "kernels/testing/op_cases.h"

extern "C" void omp_set_max_active_levels(int levels);

namespace sluice::kernels {
namespace {

using ::testing::HasSubstr;

// Error of the CPU against the reference, in units of the output's magnitude.
double MapTolerance(const MapCase& c, float forward_magnitude) {
  switch (c.kind) {
    case MapKind::kMaxPool:
    case MapKind::kRelu:
      return 0;  // Values are only moved.
    case MapKind::kAveragePool:
      // A sum, the share 1/kernel^2 and its product, and the reference's
      // rounding.
      return (c.pool.kernel * c.pool.kernel + 3) * kUnit * forward_magnitude;
    case MapKind::kTanh:
      // oneDNN's polynomial is good to a few units of the result; the
      // derivative 1 - y^2 rounds three times near 1.
      return 8 * kUnit * forward_magnitude;
    case MapKind::kSigmoid:
      // y is at most 1 and its derivative 1/4.
      return 8 * kUnit;
    case MapKind::kGelu:
      // gelu.h, for |x| up to 2 forward, and with one product more backward.
      return 3.2e-7 * forward_magnitude;
    case MapKind::kGlobalAveragePool:
      return (c.pool.height * c.pool.width + 2) * kUnit * forward_magnitude;
  }
  return 0;
}

TEST(CpuDeviceTest, PoolingAndActivationsAgreeWithTheReference) {
  for (int threads : {1, 2}) {
    const auto cpu = Cpu(threads);
    const auto reference = MakeReferenceDevice();
    for (const MapCase& c : MapCases()) {
      SCOPED_TRACE(c.name);
      auto op = Prepare(cpu.get(), c);
      ASSERT_TRUE(op.ok()) << op.status();
      const auto plain = *Prepare(reference.get(), c);
      const int64_t in = c.samples * c.input_size();
      const int64_t out = c.samples * c.output_size();
      const auto x = ToFloats(SpreadValues(in, 5));
      const auto dy = ToFloats(UniformValues(out, 6));
      std::vector<float> y(out, 7), dx(in, 7), want_y(out), want_dx(in);
      ASSERT_TRUE((*op)->Forward(c.samples, x.data(), y.data()).ok());
      ASSERT_TRUE(plain->Forward(c.samples, x.data(), want_y.data()).ok());
      ExpectNear(
          y, want_y, [&](size_t) { return MapTolerance(c, 2); }, "y");
      // Both from the reference's y, so that each direction stands alone.
      const float* y0 = want_y.data();
      ASSERT_TRUE(
          (*op)->Backward(c.samples, x.data(), y0, dy.data(), dx.data()).ok());
      ASSERT_TRUE(
          plain->Backward(c.samples, x.data(), y0, dy.data(), want_dx.data())
              .ok());
      // An element of dx takes at most kernel^2 shares of |dy| <= 1.
      const bool overlap =
          c.kind == MapKind::kMaxPool && c.pool.stride < c.pool.kernel;
      const double order = overlap ? c.pool.kernel * c.pool.kernel : 0;
      ExpectNear(
          dx, want_dx,
          [&](size_t) { return MapTolerance(c, 1) + order * order * kUnit; },
          "dx");
    }
  }
}

TEST(CpuDeviceTest, TheFirstOfEqualMaximaTakesTheGradient) {
  const auto cpu = Cpu();
  auto op = *cpu->Prepare(PoolShape{1, 2, 4, 2, 2}, 1);
  const std::vector<float> x = {0, 3, 0, 0, 3, 3, 0, 0}, dy = {5, 6};
  std::vector<float> y(2), dx(8);
  ASSERT_TRUE(op->Forward(1, x.data(), y.data()).ok());
  ASSERT_TRUE(op->Backward(1, x.data(), y.data(), dy.data(), dx.data()).ok());
  EXPECT_THAT(y, testing::ElementsAre(3, 0));
  EXPECT_THAT(dx, testing::ElementsAre(0, 5, 6, 0, 0, 0, 0, 0));
}

TEST(CpuDeviceTest, PaddingCountsNeitherForTheMaximumNorForTheMean) {
  // Windows of 2 by 2 around a row of two: 2 x 3 of them.
  PoolShape shape = {1, 1, 2, 2, 1, 1};
  const std::vector<float> x = {-4, -2};
  const auto cpu = Cpu();
  const auto reference = MakeReferenceDevice();
  for (Device* device : {cpu.get(), reference.get()}) {
    std::vector<float> y(6);
    shape.kind = PoolKind::kMax;
    ASSERT_TRUE(
        (*device->Prepare(shape, 1))->Forward(1, x.data(), y.data()).ok());
    EXPECT_THAT(y, testing::ElementsAre(-4, -2, -2, -4, -2, -2));
    shape.kind = PoolKind::kAverage;
    ASSERT_TRUE(
        (*device->Prepare(shape, 1))->Forward(1, x.data(), y.data()).ok());
    EXPECT_THAT(y, testing::ElementsAre(-4, -3, -2, -4, -3, -2));
  }
}

TEST(CpuDeviceTest, EqualMaximaAreRoutedAsInTheReference) {
  const auto cpu = Cpu();
  const auto reference = MakeReferenceDevice();
  for (const MapCase& c : MapCases()) {
    if (c.kind != MapKind::kMaxPool) continue;
    SCOPED_TRACE(c.name);
    auto op = *Prepare(cpu.get(), c);
    const auto plain = *Prepare(reference.get(), c);
    auto x = ToFloats(UniformValues(c.samples * c.input_size(), 5));
    for (float& v : x) v = std::round(v);  // -1, 0 or 1.
    const std::vector<float> dy(c.samples * c.output_size(), 1);
    std::vector<float> y(dy.size()), dx(x.size(), 7), want(x.size());
    ASSERT_TRUE(op->Forward(c.samples, x.data(), y.data()).ok());
    ASSERT_TRUE(
        op->Backward(c.samples, x.data(), y.data(), dy.data(), dx.data()).ok());
    ASSERT_TRUE(
        plain->Backward(c.samples, x.data(), y.data(), dy.data(), want.data())
            .ok());
    EXPECT_EQ(dx, want);  // Small whole numbers: exact.
  }
}

TEST(CpuDeviceTest, ActivationsWorkInPlace) {
  const auto cpu = Cpu();
  for (const MapCase& c : MapCases()) {
    if (!c.in_place()) continue;
    SCOPED_TRACE(c.name);
    auto op = *Prepare(cpu.get(), c);
    const int64_t size = c.samples * c.input_size();
    auto x = ToFloats(SpreadValues(size, 5));
    auto dy = ToFloats(UniformValues(size, 6));
    std::vector<float> y(size), dx(size);
    ASSERT_TRUE(op->Forward(c.samples, x.data(), y.data()).ok());
    ASSERT_TRUE(op->Forward(c.samples, x.data(), x.data()).ok());
    EXPECT_TRUE(SameBits(x, y));
    ASSERT_TRUE(
        op->Backward(c.samples, y.data(), y.data(), dy.data(), dx.data()).ok());
    ASSERT_TRUE(
        op->Backward(c.samples, x.data(), x.data(), dy.data(), dy.data()).ok());
    EXPECT_TRUE(SameBits(dy, dx));
  }
}

TEST(CpuDeviceTest, AnActivationOfAnElementDoesNotDependOnItsPlace) {
  const auto cpu = Cpu();
  for (MapKind kind : {MapKind::kTanh, MapKind::kSigmoid, MapKind::kGelu}) {
    MapCase c;
    c.kind = kind;
    c.samples = 200;
    auto op = *Prepare(cpu.get(), c);
    for (int n = 1; n < 100; ++n) {
      const std::vector<float> x(n, 0.37f), dy(n, 0.71f);
      std::vector<float> y(n), dx(n);
      ASSERT_TRUE(op->Forward(n, x.data(), y.data()).ok());
      ASSERT_TRUE(
          op->Backward(n, x.data(), y.data(), dy.data(), dx.data()).ok());
      for (float v : y) ASSERT_EQ(v, y[0]) << n;
      for (float v : dx) ASSERT_EQ(v, dx[0]) << n;
    }
  }
}

TEST(CpuDeviceTest, LossesAgreeWithTheReference) {
  const auto cpu = Cpu();
  const auto reference = MakeReferenceDevice();
  for (const LossCase& c : LossCases()) {
    SCOPED_TRACE(testing::Message() << c.width << " n" << c.samples);
    const int64_t size = c.samples * c.width;
    const auto z = ToFloats(SpreadValues(size, 8));
    const auto t = ToFloats(UniformValues(size, 9));
    const auto labels = Labels(c.samples, c.width, 10);
    std::vector<float> got(size), want(size);
    const double share = 1.0 / std::max<int64_t>(c.samples, 1);
    // Each exp is off by a few units and by that of its argument, |z - m| <=
    // 4; their sum by one unit a term; p is at most 1, loss is -log p.
    const double softmax_units = c.width + 12;
    {
      auto op = *cpu->Prepare(SoftmaxCrossEntropyShape{c.width}, c.samples + 1);
      auto plain =
          *reference->Prepare(SoftmaxCrossEntropyShape{c.width}, c.samples + 1);
      const auto a = op->Run(c.samples, z.data(), labels.data(), 1, got.data());
      const auto b =
          plain->Run(c.samples, z.data(), labels.data(), 1, want.data());
      EXPECT_NEAR(a->loss, b->loss, softmax_units * kUnit);
      EXPECT_EQ(a->correct, b->correct);
      ExpectNear(
          got, want, [&](size_t) { return softmax_units * kUnit * share; },
          "dlogits");
      // Without a gradient; in place, and scaled.
      EXPECT_EQ(op->Run(c.samples, z.data(), labels.data(), 1, nullptr)->loss,
                a->loss);
      std::vector<float> both = z;
      EXPECT_EQ(
          op->Run(c.samples, both.data(), labels.data(), 1024, both.data())
              ->loss,
          a->loss);
      for (float& value : got) value *= 1024;
      EXPECT_TRUE(SameBits(both, got));
    }
    auto op = *cpu->Prepare(MeanSquaredErrorShape{c.width}, c.samples + 1);
    auto plain =
        *reference->Prepare(MeanSquaredErrorShape{c.width}, c.samples + 1);
    const auto a = op->Run(c.samples, z.data(), t.data(), 1, got.data());
    const auto b = plain->Run(c.samples, z.data(), t.data(), 1, want.data());
    // The difference, |z - t| <= 3, rounds once before it is squared.
    EXPECT_NEAR(a->loss, b->loss, 4 * kUnit * b->loss);
    ExpectNear(
        got, want, [&](size_t) { return 3 * 3 * kUnit * share; }, "doutputs");
    op->Run(c.samples, z.data(), t.data(), 1024, want.data()).IgnoreError();
    for (float& value : got) value *= 1024;
    EXPECT_TRUE(SameBits(want, got));
  }
}

TEST(CpuDeviceTest, NanIsTheMaximumOfItsWindowWhereverItLies) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto cpu = Cpu();
  const auto reference = MakeReferenceDevice();
  // Each has one window, of all four pixels.
  const PoolShape pairs = {
      .height = 2, .width = 2, .kernel = 2, .stride = 2, .padding = 0};
  const PoolShape padded = {
      .height = 2, .width = 2, .kernel = 3, .stride = 3, .padding = 1};
  for (const PoolShape& shape : {pairs, padded}) {
    for (Device* const device : {cpu.get(), reference.get()}) {
      const auto op = *device->Prepare(shape, 1);
      for (size_t place = 0; place < 4; ++place) {
        SCOPED_TRACE(testing::Message() << shape.kernel << " at " << place);
        // Another one behind it changes nothing.
        for (const bool another : {false, true}) {
          std::vector<float> x = {3, 1, 2, 4}, dx(4, 7), want(4);
          x[place] = nan;
          if (another) x[3] = nan;
          want[place] = 5;
          float y = 0;
          const float dy = 5;
          ASSERT_TRUE(op->Forward(1, x.data(), &y).ok());
          EXPECT_TRUE(std::isnan(y));
          ASSERT_TRUE(op->Backward(1, x.data(), &y, &dy, dx.data()).ok());
          EXPECT_EQ(dx, want);
        }
      }
    }
  }
}

TEST(CpuDeviceTest, NanReachesTheLoss) {
  const auto cpu = Cpu();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x = {nan};
  ASSERT_TRUE((*cpu->Prepare(ActivationShape{ActivationKind::kRelu, 1}, 1))
                  ->Forward(1, x.data(), x.data())
                  .ok());
  EXPECT_TRUE(std::isnan(x[0]));
  const std::vector<float> logits = {0, nan};
  const std::vector<int32_t> labels = {0};
  const auto result = (*cpu->Prepare(SoftmaxCrossEntropyShape{2}, 1))
                          ->Run(1, logits.data(), labels.data(), 1, nullptr);
  EXPECT_TRUE(std::isnan(result->loss));
}

TEST(CpuDeviceTest, TheDescriptionSaysWhatDecidesTheBits) {
  EXPECT_THAT(Cpu()->Description(), HasSubstr("cpu (oneDNN 2."));
  EXPECT_THAT(Cpu()->Description(), HasSubstr("avx"));
  EXPECT_THAT(Cpu()->Description(), HasSubstr("1 thread)"));
  EXPECT_THAT(Cpu(2)->Description(), HasSubstr("2 threads)"));
  const std::string library =
      std::string("glibc ") + gnu_get_libc_version() + ", ";
  EXPECT_THAT(Cpu()->Description(), HasSubstr(library));
  EXPECT_THAT(MakeReferenceDevice()->Description(), HasSubstr(library));
}

TEST(CpuDeviceTest, AProcessHasOneCeiling) {
  const std::string here = Cpu()->Description();
  const auto other =
      MakeCpuDevice({1, kIsa == InstructionSet::kAvx2 ? InstructionSet::kAvx512
                                                      : InstructionSet::kAvx2});
  if (other.ok()) {  // A machine without the wider instructions.
    EXPECT_EQ((*other)->Description(), here);
  } else {
    EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(other.status().message()),
                HasSubstr("already computes with"));
  }
}

TEST(CpuDeviceTest, ZeroThreadsAreRefused) {
  EXPECT_EQ(MakeCpuDevice({0, kIsa}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// As under OMP_THREAD_LIMIT=1. oneDNN's bits would be those of one thread.
TEST(CpuDeviceTest, ThreadsThatOpenMpDoesNotStartAreRefused) {
  std::thread([] {
    omp_set_max_active_levels(0);
    EXPECT_TRUE(MakeCpuDevice({1, kIsa}).ok());
    const auto refused = MakeCpuDevice({4, kIsa});
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.status().message()),
                HasSubstr("threads is 4, but OpenMP starts 1;"));
  }).join();
}

}  // namespace
}  // namespace sluice::kernels
