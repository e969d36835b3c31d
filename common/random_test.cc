#include "common/random.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

using Block = std::array<uint32_t, 4>;

// The known answers for philox4x32-10 that Random123 publishes.
TEST(RandomTest, BlocksAreThePublishedKnownAnswers) {
  EXPECT_EQ(Random(0, uint64_t{0}).Block(0),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint64_t kOnes = ~uint64_t{0};
  EXPECT_EQ(Random(kOnes, kOnes).Block(kOnes),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Random(0x299f31d0a4093822, uint64_t{0x0370734413198a2e})
                .Block(0x85a308d3243f6a88),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomTest, EveryKindOfNumberIsAPureFunctionOfKeyStreamAndIndex) {
  const Random a(7, "dense0.weight");
  const Random b(7, "dense0.weight");
  for (uint64_t i : {9, 0, 3, 1000000}) {
    EXPECT_EQ(a.Uint64(i), b.Uint64(i));
    EXPECT_EQ(a.Normal(i), b.Normal(i));
  }
  EXPECT_NE(a.Uint64(0), Random(8, "dense0.weight").Uint64(0));
  EXPECT_NE(a.Uint64(0), Random(7, "dense0.bias").Uint64(0));
  EXPECT_NE(a.Uint64(0), a.Uint64(1));
}

TEST(RandomTest, UniformNumbersFillTheirInterval) {
  const Random random(1, "uniform");
  constexpr int kCount = 20000;
  double sum = 0;
  double float_sum = 0;
  double least = 1;
  double most = 0;
  for (int i = 0; i < kCount; ++i) {
    const double u = random.Uniform(i);
    const float f = random.UniformFloat(i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    ASSERT_GE(f, 0);
    ASSERT_LT(f, 1);
    least = std::min(least, u);
    most = std::max(most, u);
    sum += u;
    float_sum += f;
  }
  // Five standard deviations of the mean of this many uniform numbers.
  const double bound = 5 * std::sqrt(1.0 / 12 / kCount);
  EXPECT_NEAR(sum / kCount, 0.5, bound);
  EXPECT_NEAR(float_sum / kCount, 0.5, bound);
  EXPECT_LT(least, 0.001);
  EXPECT_GT(most, 0.999);
}

// The distribution function must map each normal number back to the uniform
// number it was made from; 1.15e-9 is the published relative error of the
// method.
TEST(RandomTest, NormalInvertsTheDistributionFunction) {
  const Random random(3, "normal");
  for (int i = 0; i < 20000; ++i) {
    const double p =
        (static_cast<double>(random.Uint64(i) >> 12) + 0.5) * 0x1p-52;
    const double x = random.Normal(i);
    const double back = 0.5 * std::erfc(-x / std::sqrt(2.0));
    // |dp| = density(x) |dx|, with some room for the rounding of erfc.
    const double density =
        std::exp(-x * x / 2) / std::sqrt(2 * 3.14159265358979);
    ASSERT_NEAR(back, p, density * std::abs(x) * 1.2e-9 + 1e-15)
        << "index " << i << ", x " << x;
  }
}

TEST(RandomTest, NormalHasMeanZeroAndVarianceOne) {
  const Random random(4, "normal");
  constexpr int kCount = 20000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = random.Normal(i);
    sum += x;
    squares += x * x;
  }
  // Five standard deviations: 1 for x, sqrt(2) for x^2.
  EXPECT_NEAR(sum / kCount, 0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1, 5 * std::sqrt(2.0 / kCount));
}

TEST(PermutationTest, EverySizeIsMappedOntoItself) {
  for (uint64_t size : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 256, 257, 1000,
                        4096, 4097, 60000}) {
    const Permutation permutation(1, 0, size);
    std::vector<bool> seen(size, false);
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t to = permutation(i);
      ASSERT_LT(to, size);
      ASSERT_FALSE(seen[to]) << "size " << size << ": " << to << " twice";
      seen[to] = true;
    }
  }
}

TEST(PermutationTest, AHugeSizeStaysInside) {
  const uint64_t size = (uint64_t{1} << 62) + 12345;
  const Permutation permutation(1, 0, size);
  for (uint64_t i : {uint64_t{0}, size / 2, size - 1}) {
    EXPECT_LT(permutation(i), size);
  }
}

TEST(PermutationTest, AnotherKeyOrStreamIsAnotherOrder) {
  constexpr uint64_t kSize = 1000;
  const Permutation a(1, 0, kSize);
  const Permutation other_key(2, 0, kSize);
  const Permutation other_stream(1, 1, kSize);
  int same_key = 0;
  int same_stream = 0;
  int fixed = 0;
  for (uint64_t i = 0; i < kSize; ++i) {
    same_key += a(i) == other_key(i);
    same_stream += a(i) == other_stream(i);
    fixed += a(i) == i;
  }
  // The expected count is one, with a Poisson distribution; ten is out of the
  // question.
  EXPECT_LT(same_key, 10);
  EXPECT_LT(same_stream, 10);
  EXPECT_LT(fixed, 10);
}

// Over many keys every index is mapped to each quarter of the range about
// equally often. Four standard deviations of a binomial(2000, 1/4) are 77.
TEST(PermutationTest, AnIndexGoesAnywhere) {
  for (uint64_t index : {0, 1, 499, 999}) {
    std::array<int, 4> quarter{};
    for (uint64_t key = 0; key < 2000; ++key) {
      ++quarter[Permutation(key, 0, 1000)(index) / 250];
    }
    for (int count : quarter) EXPECT_NEAR(count, 500, 77);
  }
}

}  // namespace
}  // namespace sluice
