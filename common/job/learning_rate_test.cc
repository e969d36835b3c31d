#include "common/job/learning_rate.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

using Kind = LearningRateOptions::Kind;

TEST(LearningRateTest, AConstantRateStaysTheSame) {
  const LearningRateOptions options{.base = 0.2};
  EXPECT_EQ(LearningRate(options, 0, 1), 0.2);
  EXPECT_EQ(LearningRate(options, 1000000, 8), 0.2);
}

TEST(LearningRateTest, StepDecaysAtTheSampleThatEndsThePeriod) {
  const LearningRateOptions options{
      .base = 1, .kind = Kind::kStep, .step_samples = 100, .step_factor = 0.5};
  EXPECT_EQ(LearningRate(options, 0, 1), 1);
  EXPECT_EQ(LearningRate(options, 99, 1), 1);
  EXPECT_EQ(LearningRate(options, 100, 1), 0.5);
  EXPECT_EQ(LearningRate(options, 250, 1), 0.25);
}

TEST(LearningRateTest, StepsMayBeUneven) {
  const LearningRateOptions options{
      .base = 1, .kind = Kind::kStep, .step_at = {30, 80}, .step_factor = 0.5};
  EXPECT_EQ(LearningRate(options, 29, 1), 1);
  EXPECT_EQ(LearningRate(options, 30, 1), 0.5);
  EXPECT_EQ(LearningRate(options, 79, 1), 0.5);
  EXPECT_EQ(LearningRate(options, 1000, 1), 0.25);
}

TEST(LearningRateTest, CosineFallsToItsFinalShareAndStays) {
  const LearningRateOptions options{.base = 2,
                                    .kind = Kind::kCosine,
                                    .cosine_samples = 1000,
                                    .cosine_final = 0.1};
  EXPECT_DOUBLE_EQ(LearningRate(options, 0, 1), 2);
  // Half way down: the mean of the full and the final rate.
  EXPECT_NEAR(LearningRate(options, 500, 1), 1.1, 1e-12);
  EXPECT_DOUBLE_EQ(LearningRate(options, 1000, 1), 0.2);
  EXPECT_DOUBLE_EQ(LearningRate(options, 5000, 1), 0.2);
}

TEST(LearningRateTest, LinearScalingMultipliesByTheGradientsInTheUpdate) {
  const LearningRateOptions options{.base = 0.1, .linear_scaling = true};
  EXPECT_DOUBLE_EQ(LearningRate(options, 0, 8), 0.8);
  EXPECT_DOUBLE_EQ(LearningRate(options, 0, 3), 0.1 * 3);
  EXPECT_DOUBLE_EQ(LearningRate(options, 0, 1), 0.1);
}

TEST(LearningRateTest, WarmUpRisesFromZeroWithoutScaling) {
  const LearningRateOptions options{.base = 1, .warmup_samples = 1000};
  EXPECT_NEAR(LearningRate(options, 0, 4), 0.0005, 1e-12);
  EXPECT_GT(LearningRate(options, 0, 4), 0);
  EXPECT_NEAR(LearningRate(options, 250, 4), 0.25, 0.001);
  EXPECT_EQ(LearningRate(options, 1000, 4), 1);
}

TEST(LearningRateTest, WarmUpRisesFromTheUnscaledRateWithScaling) {
  const LearningRateOptions options{
      .base = 0.1, .warmup_samples = 1000, .linear_scaling = true};
  EXPECT_NEAR(LearningRate(options, 0, 8), 0.1, 0.001);
  EXPECT_NEAR(LearningRate(options, 500, 8), 0.45, 0.001);
  EXPECT_DOUBLE_EQ(LearningRate(options, 1000, 8), 0.8);
}

TEST(LearningRateTest, WarmUpNeverExceedsTheDecayedRate) {
  const LearningRateOptions options{.base = 1,
                                    .kind = Kind::kStep,
                                    .step_samples = 10,
                                    .step_factor = 0.1,
                                    .warmup_samples = 1000};
  for (int64_t samples : {0, 15, 40, 500, 999}) {
    LearningRateOptions no_warmup = options;
    no_warmup.warmup_samples = 0;
    EXPECT_LE(LearningRate(options, samples, 1),
              LearningRate(no_warmup, samples, 1));
  }
}

}  // namespace
}  // namespace sluice
