#include "worker/model/clip_norm.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

TEST(ClipNormTest, ALongGradientKeepsItsDirectionAndGetsTheNormAllowed) {
  std::vector<float> gradient = {6, -8};
  ClipNorm(5, {}, absl::MakeSpan(gradient));
  EXPECT_THAT(gradient, ElementsAre(3, -4));
}

TEST(ClipNormTest, AGradientWithinTheNormIsNotTouched) {
  std::vector<float> gradient = {3, -4};
  ClipNorm(5, {}, absl::MakeSpan(gradient));
  EXPECT_THAT(gradient, ElementsAre(3, -4));
}

TEST(ClipNormTest, EveryElementCounts) {
  for (int size = 1; size < 40; ++size) {
    std::vector<float> gradient(size, 2);
    ClipNorm(1, {}, absl::MakeSpan(gradient));
    for (float g : gradient) {
      // The factor and its product round once each.
      EXPECT_NEAR(g, 1 / std::sqrt(size), 2.0 / (1 << 24)) << size;
    }
  }
}

TEST(ClipNormTest, RunningStatisticsNeitherCountNorChange) {
  std::vector<float> gradient = {6, 100, 200, -8, 300};
  ClipNorm(5, {{1, 3}, {4, 5}}, absl::MakeSpan(gradient));
  EXPECT_THAT(gradient, ElementsAre(3, 100, 200, -4, 300));
  const float infinity = std::numeric_limits<float>::infinity();
  gradient = {infinity, 6, 8};
  ClipNorm(5, {{0, 1}}, absl::MakeSpan(gradient));
  EXPECT_THAT(gradient, ElementsAre(infinity, 3, 4));
}

TEST(ClipNormTest, NanAndInfinityAreLeftForTheServersToReject) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> gradient = {1, infinity};
  ClipNorm(1, {}, absl::MakeSpan(gradient));
  EXPECT_THAT(gradient, ElementsAre(1, infinity));
  gradient = {1, std::nanf("")};
  ClipNorm(1, {}, absl::MakeSpan(gradient));
  EXPECT_EQ(gradient[0], 1);
  EXPECT_TRUE(std::isnan(gradient[1]));
}

}  // namespace
}  // namespace sluice
