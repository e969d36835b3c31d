#include "ps_server/coordinator/policy/gradient_weights.h"

#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(GradientWeightsTest, EqualMiniBatchesWeighOneKth) {
  for (int k = 1; k <= 40; ++k) {
    const std::vector<WeighedGradient> gradients(k, {64, 1, 5});
    for (float weight : GradientWeights(gradients, {})) {
      EXPECT_EQ(weight, static_cast<float>(1.0 / k));
    }
  }
}

TEST(GradientWeightsTest, AShortMiniBatchWeighsInProportionToItsSamples) {
  EXPECT_EQ(GradientWeights({{4, 1, 0}, {2, 1, 0}, {4, 1, 0}}, {}),
            (std::vector<float>{0.4f, 0.2f, 0.4f}));
}

TEST(GradientWeightsTest, FewerLocalStepsDoNotCountAsFewerSamples) {
  // 2 steps of 4 samples, and 1 step of 4 samples.
  EXPECT_EQ(GradientWeights({{8, 2, 0}, {4, 1, 0}}, {}),
            (std::vector<float>{0.5f, 0.5f}));
}

TEST(GradientWeightsTest, DownweightDividesByTheExcessAndDoesNotRenormalise) {
  proto::Staleness bound;
  bound.set_bound(2);
  bound.set_action(proto::Staleness::DOWNWEIGHT);
  EXPECT_EQ(
      GradientWeights({{4, 1, 0}, {4, 1, 2}, {4, 1, 3}, {4, 1, 5}}, bound),
      (std::vector<float>{0.25f, 0.25f, 0.125f, 0.0625f}));
}

TEST(GradientWeightsTest, OtherActionsDoNotChangeTheWeight) {
  for (auto action : {proto::Staleness::WAIT, proto::Staleness::DROP,
                      proto::Staleness::CANCEL}) {
    proto::Staleness bound;
    bound.set_bound(0);
    bound.set_action(action);
    EXPECT_EQ(GradientWeights({{4, 1, 9}, {4, 1, 0}}, bound),
              (std::vector<float>{0.5f, 0.5f}));
  }
}

}  // namespace
}  // namespace sluice
