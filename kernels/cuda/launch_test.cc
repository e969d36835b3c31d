// What is pure of the CUDA device: how work is cut, and where it lies.
#include <vector>

#include "common/random.h"
#include "gtest/gtest.h"
#include "kernels/cuda/fast_divide.h"
#include "kernels/cuda/launch_geometry.h"
#include "kernels/cuda/philox.h"

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
  for (uint32_t count : {1u, 2u, 49u, kLeastPart, 3 * kLeastPart,
                         3 * kLeastPart + 1, 500 * kLeastPart + 17, kMost}) {
    const Splits splits = Splits::Of(count, kLeastPart);
    EXPECT_GE(splits.parts, 1u);
    EXPECT_LE(splits.parts, kLargestSplits);
    EXPECT_GE(uint64_t{splits.parts} * splits.size, count);
    EXPECT_LT(uint64_t{splits.parts - 1} * splits.size, count);
  }
}

TEST(LaunchGeometryTest, SmallSumsAreNotCut) {
  EXPECT_EQ(ChannelSplits::Of(64, 1).parts, 1u);
  EXPECT_EQ(ChannelSplits::Of(64, 49).parts, 1u);
  EXPECT_GT(ChannelSplits::Of(64, 784).parts, 1u);
  EXPECT_GT(ChannelSplits::Of(1024, 1).parts, 1u);
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
