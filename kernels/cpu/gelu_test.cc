#include "kernels/cpu/gelu.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace sluice::kernels {
namespace {

double Below(double x) { return (1 + std::erf(x * M_SQRT1_2)) / 2; }
double Slope(double x) {
  return Below(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
}

struct Both {
  std::vector<float> y, slope;
  bool operator==(const Both&) const = default;
};
Both Of(bool wide, const std::vector<float>& x) {
  const auto n = static_cast<int64_t>(x.size());
  Both both = {std::vector<float>(n), std::vector<float>(n)};
  const std::vector<float> ones(n, 1);
  GeluForward(wide, n, x.data(), both.y.data());
  GeluBackward(wide, n, x.data(), ones.data(), both.slope.data());
  return both;
}

std::vector<float> Grid() {
  std::vector<float> x;
  for (int i = -80'000; i <= 80'000; ++i) x.push_back(i * 1e-4f);
  return x;
}

TEST(GeluTest, ErrsByNoMoreThanTheHeaderSays) {
  const std::vector<float> x = Grid();
  const auto [y, slope] = Of(true, x);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(y[i], x[i] * Below(x[i]), std::abs(x[i]) * 2.2e-7) << x[i];
    ASSERT_NEAR(slope[i], Slope(x[i]), 2.6e-7) << x[i];
  }
}

TEST(GeluTest, BitsDependNeitherOnThePlaceNorOnTheWidth) {
  const std::vector<float> x = Grid();
  const Both wide = Of(true, x);
  EXPECT_EQ(wide, Of(false, x));
  for (size_t i = 0; i < x.size(); i += 997) {
    for (const bool width : {false, true}) {
      const Both alone = Of(width, {x[i]});
      EXPECT_EQ(alone.y[0], wide.y[i]);
      EXPECT_EQ(alone.slope[0], wide.slope[i]);
    }
  }
}

TEST(GeluTest, FarFromZeroItIsReluAndNaNStays) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto [y, slope] =
      Of(true, {1e30f, kInfinity, -1e30f, 0, std::nanf(""), -kInfinity});
  EXPECT_EQ(y[0], 1e30f);
  EXPECT_EQ(y[1], kInfinity);
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ(y[3], 0);
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_EQ(slope[0], 1);
  EXPECT_EQ(slope[1], 1);
  EXPECT_EQ(slope[2], 0);
  EXPECT_EQ(slope[3], 0.5f);
  EXPECT_TRUE(std::isnan(slope[4]));
  EXPECT_TRUE(std::isnan(y[5]));  // 0 times infinity, as the formula says.
  EXPECT_EQ(slope[5], 0);
}

TEST(GeluTest, WritesOverWhatItReadsAndNoFurther) {
  std::vector<float> x = {1, -1, 0.5f, 3};
  GeluForward(true, 3, x.data(), x.data());
  EXPECT_EQ(x[3], 3);
  const std::vector<float> at = {1, -1, 0.5f};
  EXPECT_EQ((std::vector<float>{x[0], x[1], x[2]}), Of(false, at).y);
  std::vector<float> dy = {1, 1, 1, 7};
  GeluBackward(true, 3, at.data(), dy.data(), dy.data());
  EXPECT_EQ((std::vector<float>{dy[0], dy[1], dy[2]}), Of(false, at).slope);
  EXPECT_EQ(dy[3], 7);
}

}  // namespace
}  // namespace sluice::kernels
