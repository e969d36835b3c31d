// What is pure of the CUDA device: how work is cut, and where it lies.
#include <array>

#include "common/random.h"
#include "gtest/gtest.h"
#include "kernels/cuda/kernels/channel_geometry.h"
#include "kernels/cuda/kernels/fast_divide.h"
#include "kernels/cuda/kernels/launch_geometry.h"
#include "kernels/cuda/kernels/philox.h"

namespace sluice::kernels::cuda {
namespace {

constexpr uint32_t kMost = kLargestArray;

TEST(FastDivideTest, QuotientsAreThoseOfTheDivision) {
  const Random random(1, uint64_t{0});
  for (uint64_t i = 0; i < 2000; ++i) {
    const auto block = random.Block(i);
    // Divisors of every size, among them powers of two and their neighbours.
    const uint32_t power = uint32_t{1} << (i % 31);
    for (uint32_t divisor :
         {power, power - 1, power + 1, block[0] >> (1 + i % 31), kMost}) {
      if (divisor == 0 || divisor > kMost) continue;
      const FastDivide divide(divisor);
      const uint32_t multiple = (block[1] >> 1) / divisor * divisor;
      for (uint32_t n : {0u, 1u, divisor, divisor - 1, multiple, multiple - 1,
                         block[2] >> 1, kMost}) {
        if (n > kMost) continue;
        ASSERT_EQ(divide(n), n / divisor) << n << " / " << divisor;
        ASSERT_EQ(divide.Rest(n, divide(n)), n % divisor);
      }
    }
  }
}

TEST(LaunchGeometryTest, EveryElementHasAThread) {
  for (uint32_t count : {1u, 255u, 256u, 257u, kMost}) {
    EXPECT_GE(uint64_t{Blocks(count)} * kBlock, count);
    EXPECT_LT(uint64_t{Blocks(count) - 1} * kBlock, count);
  }
}

TEST(LaunchGeometryTest, PartsOfASumCoverItAndNoneIsEmpty) {
  constexpr uint32_t kLeast = 100, kParts = 64;
  for (uint32_t count : {1u, 2u, 49u, kLeast, 3 * kLeast, 3 * kLeast + 1,
                         500 * kLeast + 17, kMost}) {
    const Splits splits = Splits::Of(count, kLeast, kParts);
    EXPECT_GE(splits.parts, 1u);
    EXPECT_LE(splits.parts, kParts);
    EXPECT_GE(uint64_t{splits.parts} * splits.size, count);
    EXPECT_LT(uint64_t{splits.parts - 1} * splits.size, count);
  }
}

TEST(ChannelGeometryTest, SmallSumsAreNotCut) {
  const auto parts = [](Precision precision, int64_t samples, int64_t channels,
                        int64_t pixels) {
    return ChannelGeometry(precision, samples, channels, pixels).splits.parts;
  };
  EXPECT_EQ(parts(Precision::kFp32, 64, 128, 1), 1u);
  EXPECT_EQ(parts(Precision::kFp32, 64, 128, 49), 1u);
  EXPECT_GT(parts(Precision::kFp32, 64, 128, 784), 1u);
  EXPECT_GT(parts(Precision::kFp32, 1024, 128, 1), 1u);
  EXPECT_EQ(parts(Precision::kBf16, 1, 256, 100), 1u);
  EXPECT_GT(parts(Precision::kBf16, 64, 256, 49), 1u);
}

TEST(ChannelGeometryTest, LargeSumsKeepALargeGpuBusy) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    // ResNet-50's and LeNet's images, by 64 and 512.
    for (const auto& [samples, channels, pixels] :
         {std::array<int64_t, 3>{64, 64, 112 * 112},
          {64, 256, 56 * 56},
          {64, 1024, 14 * 14},
          {64, 2048, 7 * 7},
          {512, 6, 28 * 28}}) {
      const ChannelGeometry g(precision, samples, channels, pixels);
      EXPECT_GE(g.across * g.splits.parts, 132u) << channels;
    }
  }
}

TEST(ChannelGeometryTest, EveryChannelHasAThread) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    for (int64_t channels : {1, 3, 8, 12, 24, 64, 250, 256, 1000, 4096}) {
      const ChannelGeometry g(precision, 100, channels, 1);
      EXPECT_EQ(channels % g.pack, 0);
      EXPECT_LE(g.width() * g.rows(), kBlock);
      EXPECT_LE(g.width() * g.pack, kBlock);
      EXPECT_GE(g.rows(), kBlock / kWarp);
      EXPECT_GE(g.across * g.width() * g.pack, channels);
      EXPECT_LT((g.across - 1) * g.width() * g.pack, channels);
    }
  }
}

TEST(PhiloxTest, BlocksAreThoseOfRandom) {
  for (uint64_t key : {uint64_t{0}, uint64_t{11}, ~uint64_t{0} / 3}) {
    const Random random(key, uint64_t{0});
    for (uint64_t index : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 33}) {
      const PhiloxBlock block(key, index);
      const auto want = random.Block(index);
      for (int j = 0; j < 4; ++j) EXPECT_EQ(block.v[j], want[j]);
    }
  }
}

}  // namespace
}  // namespace sluice::kernels::cuda
