#include "worker/reference/reference_trainer.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/testing/fakes.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// Ten samples in order, mini-batches of four, three of them per epoch; three
// weights and a bias. With FakeModel the gradient is everywhere the mean of
// the mini-batch's sample numbers plus the weight itself.
ResolvedJob JobWith(const std::string& sync, const std::string& sgd,
                    const std::string& stop,
                    const std::vector<std::string>& overrides = {}) {
  const auto job = ParseJob(
      absl::StrCat("sync { ", sync, " } optimizer { learning_rate: 0.5 sgd { ",
                   sgd, " } } data { linear_regression { features: 3 ",
                   "train_samples: 10 } batch_size: 4 shuffle: false } ",
                   "model { loss: MEAN_SQUARED_ERROR ",
                   "layer { dense { units: 1 initializer { kind: CONSTANT ",
                   "value: 1 } } } } stop { ", stop, " }"),
      "test", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  return *job;
}

class ReferenceTrainerTest : public ::testing::Test {
 protected:
  absl::StatusOr<ReferenceResult> Train(const ResolvedJob& job) {
    return TrainReference(job, data_, model_.get());
  }

  FakeDataSource data_{10};
  FakeModel model_;
};

TEST_F(ReferenceTrainerTest, AnUpdateTakesTheWeightedMeanOfItsMiniBatches) {
  const auto result =
      Train(JobWith("policy: SYNC gradients_per_update: 3", "", "updates: 1"));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->version, Version(1));
  ASSERT_THAT(result->weights, SizeIs(4));
  // The mean over all ten samples is 4.5 although the last batch is short.
  EXPECT_FLOAT_EQ(result->weights[0], 1 - 0.5f * (4.5f + 1));
  EXPECT_FLOAT_EQ(result->weights[3], 0 - 0.5f * (4.5f + 0));
}

TEST_F(ReferenceTrainerTest, TheLastUpdateTakesWhatIsLeft) {
  const auto result =
      Train(JobWith("policy: SYNC gradients_per_update: 2", "", "epochs: 1"));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->version, Version(2));
  // Samples 0 to 7 have the mean 3.5; the last mini-batch's two have 8.5.
  const float first = 1 - 0.5f * (3.5f + 1);
  EXPECT_FLOAT_EQ(result->weights[0], first - 0.5f * (8.5f + first));
}

TEST_F(ReferenceTrainerTest, AnEpochOfStaticDataHasAllPartitionsMiniBatches) {
  const auto result =
      Train(JobWith("policy: SYNC", "", "epochs: 1",
                    {"cluster.workers=2", "data.sharding=STATIC"}));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->version, Version(2));
  // Of 0 to 4 and of 5 to 9 the first four, then the last: four mini-batches,
  // where 10 samples in one partition would be three.
  const float first = 1 - 0.5f * ((1.5f + 6.5f) / 2 + 1);
  EXPECT_FLOAT_EQ(result->weights[0], first - 0.5f * ((4 + 9) / 2.0f + first));
}

TEST_F(ReferenceTrainerTest, DecayLeavesOutTheBiasAndMomentumRemembers) {
  const auto result =
      Train(JobWith("policy: SYNC gradients_per_update: 3",
                    "momentum: 0.5 weight_decay: 0.1", "updates: 2"));
  ASSERT_TRUE(result.ok()) << result.status();
  float w = 1, b = 0, u_w = 0, u_b = 0;
  for (int i = 0; i < 2; ++i) {
    // The second update takes the second epoch's mini-batches.
    u_w = 0.5f * u_w + (4.5f + w + 0.1f * w);
    u_b = 0.5f * u_b + (4.5f + b);
    w -= 0.5f * u_w;
    b -= 0.5f * u_b;
  }
  EXPECT_FLOAT_EQ(result->weights[0], w);
  EXPECT_FLOAT_EQ(result->weights[3], b);
}

TEST_F(ReferenceTrainerTest, NesterovLooksAhead) {
  const auto result =
      Train(JobWith("policy: SYNC gradients_per_update: 3",
                    "momentum: 0.5 nesterov: true", "updates: 1"));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FLOAT_EQ(result->weights[0], 1 - 0.5f * 1.5f * (4.5f + 1));
}

// The first gradient is the mean 4.5 plus the weight: 5.5 for a weight, 4.5
// for the bias.
ResolvedJob OneUpdate(const proto::Optimizer& optimizer) {
  ResolvedJob job =
      JobWith("policy: SYNC gradients_per_update: 3", "", "updates: 1");
  *job.job.mutable_optimizer() = optimizer;
  job.job.mutable_optimizer()->set_learning_rate(0.5);
  return job;
}

TEST_F(ReferenceTrainerTest, AdagradDividesByTheRootOfTheSquares) {
  proto::Optimizer optimizer;
  optimizer.mutable_adagrad()->set_initial_accumulator(4);
  const auto result = Train(OneUpdate(optimizer));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FLOAT_EQ(result->weights[0],
                  1 - 0.5f * 5.5f / std::sqrt(4 + 5.5f * 5.5f));
  EXPECT_FLOAT_EQ(result->weights[3],
                  -0.5f * 4.5f / std::sqrt(4 + 4.5f * 4.5f));
}

TEST_F(ReferenceTrainerTest, AdamsFirstMoveIsTheRateWhateverTheDecayAdds) {
  proto::Optimizer optimizer;
  optimizer.mutable_adam()->set_beta1(0.9);
  optimizer.mutable_adam()->set_beta2(0.999);
  optimizer.mutable_adam()->set_weight_decay(0.1);
  const auto result = Train(OneUpdate(optimizer));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FLOAT_EQ(result->weights[0], 0.5f);
  EXPECT_FLOAT_EQ(result->weights[3], -0.5f);
}

TEST_F(ReferenceTrainerTest, AdamWDecaysTheWeightsBesidesAndNoBias) {
  proto::Optimizer optimizer;
  optimizer.mutable_adamw()->set_beta1(0.9);
  optimizer.mutable_adamw()->set_beta2(0.999);
  optimizer.mutable_adamw()->set_weight_decay(0.1);
  const auto result = Train(OneUpdate(optimizer));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FLOAT_EQ(result->weights[0], 1 - 0.5f * 0.1f - 0.5f);
  EXPECT_FLOAT_EQ(result->weights[3], -0.5f);
}

TEST_F(ReferenceTrainerTest, ATensorsFactorsMultiplyItsRateAndDecay) {
  proto::Optimizer optimizer;
  optimizer.mutable_adamw()->set_beta1(0.9);
  optimizer.mutable_adamw()->set_beta2(0.999);
  optimizer.mutable_adamw()->set_weight_decay(0.1);
  ResolvedJob job = OneUpdate(optimizer);
  std::vector<TensorSpec> tensors = job.layout.tensors();
  tensors[0].factors = {.rate = 0.5, .decay = 2};
  job.layout = ParameterLayout(tensors, 1);
  const auto result = Train(job);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FLOAT_EQ(result->weights[0], 1 - 0.25f * 0.2f - 0.25f);
  EXPECT_FLOAT_EQ(result->weights[3], -0.5f);
}

// The job with its bias as a running statistic.
ResolvedJob WithStatistic(ResolvedJob job, double share) {
  std::vector<TensorSpec> tensors = job.layout.tensors();
  tensors[1].moving_average = share;
  job.layout = ParameterLayout(tensors, 1);
  return job;
}

TEST_F(ReferenceTrainerTest, AStatisticIsAveragedIn) {
  const auto result =
      Train(WithStatistic(JobWith("policy: SYNC gradients_per_update: 3",
                                  "momentum: 0.5", "updates: 2"),
                          0.25));
  ASSERT_TRUE(result.ok()) << result.status();
  // What the mini-batches carry is their mean plus the statistic itself.
  const float first = 0.25f * 4.5f;
  EXPECT_FLOAT_EQ(result->weights[3], first + 0.25f * 4.5f);
}

TEST_F(ReferenceTrainerTest, LocalStepsLeaveStatisticsAloneAndTakeTheirMean) {
  ResolvedJob job =
      WithStatistic(JobWith("policy: SYNC gradients_per_update: 1 "
                            "local_steps: 2",
                            "", "updates: 1"),
                    0.25);
  job.job.mutable_optimizer()->mutable_averaging();
  const auto result = Train(job);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FLOAT_EQ(result->weights[3], 0.25f * (1.5f + 5.5f) / 2);
}

TEST_F(ReferenceTrainerTest, AveragingGivesTheMeanOfWhereLocalStepsEnd) {
  ResolvedJob job = JobWith(
      "policy: SYNC gradients_per_update: 2 local_steps: 2", "", "epochs: 1");
  job.job.mutable_optimizer()->mutable_averaging();
  const auto result = Train(job);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->version, Version(1));
  // Mini-batches with the means 1.5, 5.5 and 8.5; the last has half the
  // samples and is alone in its task.
  const auto mean_of_ends = [](float w) {
    float first = w - 0.5f * (1.5f + w);
    first -= 0.5f * (5.5f + first);
    const float second = w - 0.5f * (8.5f + w);
    return (4 * first + 2 * second) / 6;
  };
  EXPECT_FLOAT_EQ(result->weights[0], mean_of_ends(1));
  EXPECT_FLOAT_EQ(result->weights[3], mean_of_ends(0));
}

TEST_F(ReferenceTrainerTest, AnythingButSyncIsRefused) {
  const auto result = Train(JobWith("policy: K_SYNC k: 1", "", "updates: 1"));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("SYNC"));
  EXPECT_EQ(Train(JobWith("policy: SYNC", "", "seconds: 1")).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice
