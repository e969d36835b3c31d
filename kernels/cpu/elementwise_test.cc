// Dropout and sums of the CPU device against the reference.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/reference/reference_device.h"
#include "kernels/testing/op_cases.h"

namespace sluice::kernels {
namespace {

using Draw = DropoutOp::Draw;

std::unique_ptr<Device> Cpu(int threads = 1) {
  auto device = MakeCpuDevice({threads, {}});
  EXPECT_TRUE(device.ok()) << device.status();
  (*device)->EnterThread();
  return *std::move(device);
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * 4) == 0);
}

TEST(ElementwiseTest, DropoutIsThatOfTheReferenceBitForBit) {
  const auto reference = MakeReferenceDevice();
  for (int threads : {1, 2}) {
    const auto cpu = Cpu(threads);
    for (int64_t size : {1, 5, 33, 1025}) {
      for (int64_t samples : {0, 1, 3, 200}) {
        for (double rate : {0.0, 0.1, 0.5}) {
          auto op = *cpu->Prepare(DropoutShape{size, 1, rate}, 200);
          auto plain = *reference->Prepare(DropoutShape{size, 1, rate}, 200);
          auto x = ToFloats(UniformValues(samples * size, 5));
          std::vector<float> got(x.size(), 7), want(x.size(), 7);
          ASSERT_TRUE(op->SetDraw(Draw{11}).ok());
          ASSERT_TRUE(op->Run(samples, x.data(), got.data()).ok());
          ASSERT_TRUE(plain->SetDraw(Draw{11}).ok());
          ASSERT_TRUE(plain->Run(samples, x.data(), want.data()).ok());
          EXPECT_TRUE(SameBits(got, want)) << size << " n" << samples;
          ASSERT_TRUE(op->SetDraw(std::nullopt).ok());
          ASSERT_TRUE(op->Run(samples, x.data(), got.data()).ok());
          EXPECT_TRUE(SameBits(got, x));
          ASSERT_TRUE(op->SetDraw(Draw{11}).ok());
          ASSERT_TRUE(op->Run(samples, x.data(), x.data()).ok());
          EXPECT_TRUE(SameBits(x, want));
        }
      }
    }
  }
}

TEST(ElementwiseTest, DropoutInPartsIsThatOfTheWhole) {
  const auto reference = MakeReferenceDevice();
  const auto cpu = Cpu(2);
  for (int64_t size : {1, 3, 33, 1025}) {
    auto op = *cpu->Prepare(DropoutShape{size, 1, 0.5}, 20);
    auto plain = *reference->Prepare(DropoutShape{size, 1, 0.5}, 20);
    const auto x = ToFloats(UniformValues(20 * size, 5));
    std::vector<float> whole(x.size()), parts(x.size()), slow(x.size());
    ASSERT_TRUE(op->SetDraw(Draw{11}).ok());
    ASSERT_TRUE(op->Run(20, x.data(), whole.data()).ok());
    for (int64_t first = 0; first < 20; first += 7) {
      const int64_t samples = std::min<int64_t>(7, 20 - first);
      const int64_t at = first * size;
      ASSERT_TRUE(op->SetDraw(Draw{11, first}).ok());
      ASSERT_TRUE(op->Run(samples, x.data() + at, parts.data() + at).ok());
      ASSERT_TRUE(plain->SetDraw(Draw{11, first}).ok());
      ASSERT_TRUE(plain->Run(samples, x.data() + at, slow.data() + at).ok());
    }
    EXPECT_TRUE(SameBits(parts, whole)) << size;
    EXPECT_TRUE(SameBits(slow, whole)) << size;
  }
}

TEST(ElementwiseTest, DropoutLeavesOutItsShareAndKeepsTheSum) {
  const auto cpu = Cpu();
  auto op = *cpu->Prepare(DropoutShape{1000, 1, 0.25}, 100);
  const std::vector<float> x(100000, 1);
  std::vector<float> y(x.size()), other(x.size());
  ASSERT_TRUE(op->SetDraw(Draw{1}).ok());
  ASSERT_TRUE(op->Run(100, x.data(), y.data()).ok());
  ASSERT_TRUE(op->SetDraw(Draw{2}).ok());
  ASSERT_TRUE(op->Run(100, x.data(), other.data()).ok());
  int64_t dropped = 0, both = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    if (y[i] == 0) ++dropped;
    if (y[i] == 0 && other[i] == 0) ++both;
    if (y[i] != 0) {
      EXPECT_EQ(y[i], static_cast<float>(1 / 0.75));
    }
  }
  // Five standard deviations of a binomial count, for which these two keys
  // were not chosen.
  EXPECT_NEAR(dropped, 25000, 5 * std::sqrt(100000 * 0.25 * 0.75));
  EXPECT_NEAR(both, 6250, 5 * std::sqrt(100000 * 0.0625 * 0.9375));
}

TEST(ElementwiseTest, SumsAreThoseOfTheReference) {
  const auto cpu = Cpu(2);
  const auto reference = MakeReferenceDevice();
  for (int64_t size : {1, 31, 1025}) {
    auto a = ToFloats(UniformValues(70 * size, 5));
    const auto b = ToFloats(UniformValues(70 * size, 6));
    std::vector<float> want(a.size());
    ASSERT_TRUE((*reference->Prepare(SumShape{size, false}, 70))
                    ->Run(70, a.data(), b.data(), want.data())
                    .ok());
    ASSERT_TRUE((*cpu->Prepare(SumShape{size, false}, 70))
                    ->Run(70, a.data(), b.data(), a.data())
                    .ok());
    EXPECT_TRUE(SameBits(a, want));
  }
}

TEST(ElementwiseTest, WithReluTheBitsAreThoseOfReluBehindTheSum) {
  const auto cpu = Cpu(2), reference = MakeReferenceDevice();
  for (Device* device : {cpu.get(), reference.get()}) {
    for (int64_t size : {1, 31, 1025}) {
      auto a = ToFloats(UniformValues(70 * size, 5));
      auto b = ToFloats(UniformValues(70 * size, 6));
      a[0] = std::nanf("");
      a[1] = b[1] = -0.0f;
      std::vector<float> sum(a.size());
      ASSERT_TRUE((*device->Prepare(SumShape{size, false}, 70))
                      ->Run(70, a.data(), b.data(), sum.data())
                      .ok());
      ASSERT_TRUE((*device->Prepare(SumShape{size, true}, 70))
                      ->Run(70, a.data(), b.data(), b.data())
                      .ok());
      EXPECT_TRUE(SameBits(b, ReluOfEach(sum)));
    }
  }
}

}  // namespace
}  // namespace sluice::kernels
