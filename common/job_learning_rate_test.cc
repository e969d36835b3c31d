#include "common/job_learning_rate.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

// A job of 1000 samples, as if it had been resolved.
ResolvedJob Job() {
  ResolvedJob resolved{{}, {}, {}, ParameterLayout({}, 1), ""};
  resolved.job.mutable_optimizer()->set_learning_rate(0.25);
  resolved.data.train_samples = 1000;
  return resolved;
}

TEST(JobLearningRateTest, AJobWithoutAScheduleHasAConstantRate) {
  const LearningRateOptions rate = JobLearningRate(Job());
  EXPECT_EQ(rate.base, 0.25);
  EXPECT_EQ(rate.kind, LearningRateOptions::Kind::kConstant);
  EXPECT_EQ(rate.warmup_samples, 0);
  EXPECT_FALSE(rate.linear_scaling);
}

TEST(JobLearningRateTest, EpochsBecomeSamples) {
  ResolvedJob job = Job();
  proto::Schedule* schedule = job.job.mutable_schedule();
  schedule->mutable_cosine()->set_epochs(5);
  schedule->mutable_cosine()->set_final_factor(0.1);
  schedule->set_warmup_epochs(0.5);
  schedule->set_linear_scaling(true);
  const LearningRateOptions cosine = JobLearningRate(job);
  EXPECT_EQ(cosine.kind, LearningRateOptions::Kind::kCosine);
  EXPECT_EQ(cosine.cosine_samples, 5000);
  EXPECT_EQ(cosine.cosine_final, 0.1);
  EXPECT_EQ(cosine.warmup_samples, 500);
  EXPECT_TRUE(cosine.linear_scaling);
  schedule->mutable_step()->set_every_epochs(2);
  schedule->mutable_step()->set_factor(0.5);
  const LearningRateOptions step = JobLearningRate(job);
  EXPECT_EQ(step.kind, LearningRateOptions::Kind::kStep);
  EXPECT_EQ(step.step_samples, 2000);
  EXPECT_EQ(step.step_factor, 0.5);
}

}  // namespace
}  // namespace sluice
