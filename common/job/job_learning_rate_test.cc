#include "common/job/job_learning_rate.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

proto::Job Job() {
  proto::Job job;
  job.mutable_optimizer()->set_learning_rate(0.25);
  return job;
}

TEST(JobLearningRateTest, AJobWithoutAScheduleHasAConstantRate) {
  const LearningRateOptions rate = JobLearningRate(Job(), 1000);
  EXPECT_EQ(rate.base, 0.25);
  EXPECT_EQ(rate.kind, LearningRateOptions::Kind::kConstant);
  EXPECT_EQ(rate.warmup_samples, 0);
  EXPECT_FALSE(rate.linear_scaling);
}

TEST(JobLearningRateTest, EpochsBecomeSamples) {
  proto::Job job = Job();
  proto::Schedule* schedule = job.mutable_schedule();
  schedule->mutable_cosine()->set_epochs(5);
  schedule->mutable_cosine()->set_final_factor(0.1);
  schedule->set_warmup_epochs(0.5);
  schedule->set_linear_scaling(true);
  const LearningRateOptions cosine = JobLearningRate(job, 1000);
  EXPECT_EQ(cosine.kind, LearningRateOptions::Kind::kCosine);
  EXPECT_EQ(cosine.cosine_samples, 5000);
  EXPECT_EQ(cosine.cosine_final, 0.1);
  EXPECT_EQ(cosine.warmup_samples, 500);
  EXPECT_TRUE(cosine.linear_scaling);
  schedule->mutable_step()->set_every_epochs(2);
  schedule->mutable_step()->set_factor(0.5);
  const LearningRateOptions step = JobLearningRate(job, 1000);
  EXPECT_EQ(step.kind, LearningRateOptions::Kind::kStep);
  EXPECT_EQ(step.step_samples, 2000);
  EXPECT_EQ(step.step_factor, 0.5);
  schedule->mutable_step()->add_at_epochs(3);
  schedule->mutable_step()->add_at_epochs(4.5);
  EXPECT_EQ(JobLearningRate(job, 1000).step_at,
            std::vector<double>({3000, 4500}));
}

// 1.1 * 50000 is a little more than 55,000 in double.
TEST(JobLearningRateTest, AStepIsNotLateByTheRoundingOfItsEpochs) {
  proto::Job job = Job();
  job.mutable_schedule()->mutable_step()->add_at_epochs(1.1);
  job.mutable_schedule()->mutable_step()->add_at_epochs(1.00001);
  EXPECT_EQ(JobLearningRate(job, 50000).step_at,
            std::vector<double>({55000, 1.00001 * 50000}));
}

}  // namespace
}  // namespace sluice
