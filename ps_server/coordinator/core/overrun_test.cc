// What exceeds its deadline again and again comes to an end, and so does the
// final evaluation of an evaluator that dies in it again and again.
#include "gtest/gtest.h"
#include "ps_server/coordinator/testing/driver.h"
#include "ps_server/coordinator/testing/jobs.h"

namespace sluice {
namespace {

constexpr Peer kEvaluator{Role::kEvaluator, 0};

// Ten mini-batches for one worker, of which none is ever delivered.
CoordinatorOptions NeverInTime() {
  CoordinatorOptions job = SmallJob(proto::ASYNC, 1, 1);
  job.job.mutable_limits()->set_task_deadline_s(30);
  return job;
}

TEST(OverrunTest, AMiniBatchThatTookTooLongHasTwiceTheTimeFromThenOn) {
  Driver run(NeverInTime());
  run.Start();
  run.Advance(absl::Seconds(30));
  const Task second = *run.TaskOf(0);
  EXPECT_EQ(second.first_batch, BatchId(0));
  run.Advance(absl::Seconds(59));
  EXPECT_EQ(run.TaskOf(0)->key, second.key);
  run.Advance(absl::Seconds(1));
  EXPECT_EQ(run.VerdictOf(second.key)->reason,
            "worker 0 took longer than 1m for one task");
  EXPECT_TRUE(run.Deliver(0).ok());
  // The next one has its own deadline.
  const Task other = *run.TaskOf(0);
  run.Advance(absl::Seconds(30));
  EXPECT_TRUE(run.VerdictOf(other.key).has_value());
}

TEST(OverrunTest,
     TheFifthTimeAMiniBatchTakesTooLongTheRunFailsAndNamesTheField) {
  Driver run(NeverInTime());
  run.Start();
  run.Advance(absl::Seconds(30 + 3 * 60 + 59));
  EXPECT_FALSE(run.Finished().has_value());
  run.Advance(absl::Seconds(1));
  ASSERT_TRUE(run.Finished().has_value());
  EXPECT_EQ(run.Finished()->failure,
            "mini-batch 0: took 5 times longer than limits.task_deadline_s "
            "allows (30s, from the second time on 1m), last worker 0; raise "
            "limits.task_deadline_s");
}

TEST(OverrunTest, WithSkipTheFifthTimeLeavesTheMiniBatchOut) {
  CoordinatorOptions job = NeverInTime();
  job.job.mutable_sync()->set_on_bad_gradient(proto::SKIP);
  Driver run(job);
  run.Start();
  run.Advance(absl::Seconds(30 + 4 * 60));
  EXPECT_FALSE(run.Finished().has_value());
  EXPECT_EQ(run.State().counters.batches_left_out, 1);
  EXPECT_EQ(run.State().counters.tasks_overdue, 5);
  EXPECT_EQ(run.BatchOf(0), 1);
  while (!run.Finished().has_value()) ASSERT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.Finished()->failure, "");
  EXPECT_EQ(run.CommittedBatches().size(), 9);
}

// The evaluator takes too long, as often as it is started again.
void OverrunEvaluations(Driver& run, int times) {
  for (int i = 0; i < times; ++i) {
    EXPECT_EQ(run.All<SendEvaluate>().size(), 1) << i;
    run.Forget();
    run.Advance(i == 0 ? absl::Seconds(30) : absl::Seconds(60));
    if (run.State().phase == Phase::kFailed) return;
    EXPECT_EQ(run.State().evaluator, PeerLife::kDead) << i;
    EXPECT_TRUE(run.Join(kEvaluator).ok());
  }
}

CoordinatorOptions SlowlyEvaluated(proto::OnBadGradient on_bad_gradient) {
  CoordinatorOptions job = SmallJob(proto::ASYNC, 2, 1);
  job.job.mutable_evaluation()->set_enabled(true);
  job.job.mutable_limits()->set_task_deadline_s(30);
  job.job.mutable_sync()->set_policy(proto::K_BATCH_ASYNC);
  job.job.mutable_sync()->set_k(2);
  job.job.mutable_sync()->set_on_bad_gradient(on_bad_gradient);
  return job;
}

// Whose only update is followed by the final evaluation.
CoordinatorOptions OneUpdate(proto::OnBadGradient on_bad_gradient) {
  CoordinatorOptions job = SlowlyEvaluated(on_bad_gradient);
  job.job.clear_stop();
  job.job.mutable_stop()->set_updates(1);
  return job;
}

void TrainOneUpdate(Driver& run) {
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.Deliver(1).ok());
}

TEST(OverrunTest, TheFifthThatTakesTooLongFailsTheRunAndNamesTheField) {
  Driver run(OneUpdate(proto::FAIL));
  TrainOneUpdate(run);
  OverrunEvaluations(run, 4);
  EXPECT_FALSE(run.Finished().has_value());
  run.Advance(absl::Seconds(60));
  EXPECT_EQ(run.Finished()->failure,
            "evaluation of version 1: took 5 times longer than "
            "limits.task_deadline_s allows (30s, from the second time on 1m); "
            "raise limits.task_deadline_s");
}

TEST(OverrunTest, WithSkipTheFifthThatTakesTooLongIsLeftOut) {
  Driver run(OneUpdate(proto::SKIP));
  TrainOneUpdate(run);
  OverrunEvaluations(run, 4);
  EXPECT_FALSE(run.Finished().has_value());
  run.Advance(absl::Seconds(60));
  ASSERT_TRUE(run.Finished().has_value());
  EXPECT_EQ(run.Finished()->failure, "");
  EXPECT_FALSE(run.State().final_evaluation.has_value());
}

// The evaluator dies in an evaluation, as often as it is started again.
void LoseEvaluator(Driver& run, int times) {
  for (int i = 0; i < times; ++i) {
    EXPECT_FALSE(run.Finished().has_value()) << i;
    EXPECT_EQ(run.All<SendEvaluate>().size(), 1) << i;
    run.Forget();
    run.Advance(absl::Seconds(1));
    run.Leave(kEvaluator);
    if (run.Finished().has_value()) return;
    EXPECT_TRUE(run.Join(kEvaluator).ok());
  }
}

TEST(OverrunTest, TheTenthDeathInTheFinalEvaluationFailsTheRun) {
  Driver run(OneUpdate(proto::FAIL));
  TrainOneUpdate(run);
  LoseEvaluator(run, 9);
  EXPECT_FALSE(run.Finished().has_value());
  run.Leave(kEvaluator);
  ASSERT_TRUE(run.Finished().has_value());
  EXPECT_EQ(run.Finished()->failure,
            "evaluation of version 1: given up 10 times in a row, the last "
            "time because the evaluator left: test");
}

TEST(OverrunTest, WithSkipTheTenthDeathLeavesTheFinalEvaluationOut) {
  Driver run(OneUpdate(proto::SKIP));
  TrainOneUpdate(run);
  LoseEvaluator(run, 10);
  ASSERT_TRUE(run.Finished().has_value());
  EXPECT_EQ(run.Finished()->failure, "");
  EXPECT_FALSE(run.State().final_evaluation.has_value());
}

TEST(OverrunTest, WhatTakesTooLongIsNoDeath) {
  Driver run(OneUpdate(proto::FAIL));
  TrainOneUpdate(run);
  OverrunEvaluations(run, 4);
  LoseEvaluator(run, 9);
  EXPECT_FALSE(run.Finished().has_value());
  run.Advance(absl::Seconds(60));
  ASSERT_TRUE(run.Finished().has_value());
  EXPECT_EQ(run.Finished()->failure,
            "evaluation of version 1: took 5 times longer than "
            "limits.task_deadline_s allows (30s, from the second time on 1m); "
            "raise limits.task_deadline_s");
}

// Training goes on, and the next evaluator takes a newer version.
TEST(OverrunTest, DeathsInAnotherEvaluationAreNotCounted) {
  CoordinatorOptions job = SlowlyEvaluated(proto::FAIL);
  job.job.mutable_evaluation()->set_every_epochs(0.2);
  Driver run(job);
  TrainOneUpdate(run);
  LoseEvaluator(run, 11);
  EXPECT_FALSE(run.Finished().has_value());
  EXPECT_EQ(run.State().phase, Phase::kRunning);
}

}  // namespace
}  // namespace sluice
