// When a version is evaluated, and how a run stops and ends.

#include "gtest/gtest.h"
#include "ps_server/coordinator/testing/driver.h"
#include "ps_server/coordinator/testing/jobs.h"

namespace sluice {
namespace {

const Peer kEvaluator{Role::kEvaluator, 0};

CoordinatorOptions Job() { return SmallJob(proto::ASYNC, 2, 1); }

CoordinatorOptions Evaluated(double every_samples) {
  CoordinatorOptions job = Job();
  job.job.mutable_evaluation()->set_enabled(true);
  job.job.mutable_evaluation()->set_every_epochs(every_samples /
                                                 job.train_samples);
  return job;
}

void FinishTraining(Driver& run) {
  while (run.State().phase == Phase::kRunning) {
    ASSERT_TRUE(run.Deliver(run.TaskOf(0).has_value() ? 0 : 1).ok());
  }
}

// ---- Evaluations ----

TEST(EvaluationTest, TheCommitThatCrossesTheIntervalIsPinnedAndEvaluated) {
  Driver run(Evaluated(8));  // Every two mini-batches.
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_FALSE(run.Decisions<Commit>().back().pin);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.Decisions<Commit>().back().pin);
  ASSERT_EQ(run.All<SendEvaluate>().size(), 1);
  EXPECT_EQ(run.All<SendEvaluate>()[0].version, Version(2));
  EXPECT_FALSE(run.All<SendEvaluate>()[0].final);
  EXPECT_TRUE(run.Decisions<Release>().empty());
  run.Evaluated(2, 0.75);
  ASSERT_EQ(run.Decisions<Release>().size(), 1);
  EXPECT_EQ(run.Decisions<Release>()[0].version, Version(2));
  EXPECT_EQ(run.State().last_evaluation->accuracy, 0.75);
  EXPECT_EQ(run.All<RecordEvaluation>().size(), 1);
}

TEST(EvaluationTest, IsNotLateByTheRoundingOfItsEpochs) {
  CoordinatorOptions job = Evaluated(8);
  job.train_samples = 10000;
  job.job.mutable_data()->set_batch_size(100);
  // Times 10,000 that is a little more than 700 in double.
  job.job.mutable_evaluation()->set_every_epochs(0.07);
  Driver run(job);
  run.Start();
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.All<SendEvaluate>().empty());
  EXPECT_TRUE(run.Deliver(0).ok());
  ASSERT_EQ(run.All<SendEvaluate>().size(), 1);
  EXPECT_EQ(run.All<SendEvaluate>()[0].version, Version(7));
}

TEST(EvaluationTest, ABusyEvaluatorTakesALaterVersionNext) {
  Driver run(Evaluated(8));
  run.Start();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.All<SendEvaluate>().size(), 1);
  run.Evaluated(2);
  // Due since version 4; the newest is 5.
  ASSERT_EQ(run.Decisions<Pin>().size(), 1);
  EXPECT_EQ(run.Decisions<Pin>()[0].version, Version(5));
  EXPECT_EQ(run.All<SendEvaluate>().back().version, Version(5));
}

TEST(EvaluationTest, TheEvaluatorsDeathReleasesItsVersion) {
  Driver run(Evaluated(8));
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.Deliver(0).ok());
  run.Silence(kEvaluator);
  run.Advance(absl::Seconds(6));
  ASSERT_EQ(run.Decisions<Release>().size(), 1);
  EXPECT_FALSE(run.Finished().has_value());
  // An answer that comes too late changes nothing.
  run.Evaluated(2);
  EXPECT_EQ(run.Decisions<Release>().size(), 1);
  // The next evaluator makes up for it.
  EXPECT_TRUE(run.Join(kEvaluator).ok());
  EXPECT_EQ(run.All<SendEvaluate>().size(), 2);
}

TEST(EvaluationTest, AnEvaluationThatTakesTooLongEndsTheEvaluator) {
  CoordinatorOptions job = Evaluated(8);
  job.job.mutable_limits()->set_task_deadline_s(30);
  Driver run(job);
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.Deliver(0).ok());
  run.Advance(absl::Seconds(31));
  EXPECT_EQ(run.State().evaluator, PeerLife::kDead);
  EXPECT_EQ(run.All<EndSession>().back().reason,
            "evaluator took longer than 30s for version 2");
  EXPECT_EQ(run.Decisions<Release>().size(), 1);
}

// ---- Stop ----

TEST(StopTest, AfterSoManyUpdates) {
  CoordinatorOptions job = Job();
  job.job.clear_stop();
  job.job.mutable_stop()->set_updates(3);
  Driver run(job);
  run.Start();
  FinishTraining(run);
  EXPECT_EQ(run.version(), 3);
  EXPECT_EQ(run.Finished()->reason, "3 updates made");
}

TEST(StopTest, AfterSoMuchTime) {
  CoordinatorOptions job = Job();
  job.job.clear_stop();
  job.job.mutable_stop()->set_seconds(10);
  Driver run(job);
  run.Start();
  run.Advance(absl::Seconds(9.9));
  EXPECT_FALSE(run.Finished().has_value());
  run.Advance(absl::Seconds(0.1));
  EXPECT_EQ(run.Finished()->reason, "10s are over");
  EXPECT_EQ(run.State().running, absl::Seconds(10));
}

TEST(StopTest, WhenTheTargetAccuracyIsReached) {
  CoordinatorOptions job = Evaluated(8);
  job.job.mutable_stop()->set_target_accuracy(0.7);
  Driver run(job);
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.Deliver(0).ok());
  run.Evaluated(2, 0.69);
  EXPECT_EQ(run.State().phase, Phase::kRunning);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.Deliver(0).ok());
  run.Evaluated(4, 0.7);
  EXPECT_EQ(run.State().phase, Phase::kFinishing);
}

TEST(StopTest, OnRequestRunningTasksAreCancelledAndReadyOnesToo) {
  CoordinatorOptions job = SmallJob(proto::K_ASYNC, 2, 2);
  Driver run(job);
  run.Start();
  const Task ready = *run.TaskOf(0);
  const Task running = *run.TaskOf(1);
  EXPECT_TRUE(run.Deliver(0).ok());
  run.RequestStop();
  EXPECT_EQ(run.VerdictOf(ready.key)->reason, "the run is over: asked to");
  EXPECT_EQ(run.VerdictOf(running.key)->outcome, Outcome::kCancelled);
  EXPECT_EQ(run.Finished()->failure, "");
  EXPECT_EQ(run.Finished()->reason, "asked to");
}

TEST(StopTest, BeforeTheStartThereIsNothingToFinish) {
  Driver run(Evaluated(0));
  run.RequestStop();
  EXPECT_EQ(run.Finished()->reason, "asked to");
}

// ---- End ----

TEST(FinishTest, TheFinalVersionIsEvaluatedBeforeAllMayGo) {
  Driver run(Evaluated(0));
  run.Start();
  FinishTraining(run);
  ASSERT_EQ(run.All<SendEvaluate>().size(), 1);
  EXPECT_TRUE(run.All<SendEvaluate>()[0].final);
  EXPECT_EQ(run.Decisions<Pin>()[0].version, Version(10));
  EXPECT_FALSE(run.Finished().has_value());
  run.Evaluated(10, 0.9);
  EXPECT_EQ(run.Finished()->failure, "");
  EXPECT_EQ(run.State().final_evaluation->accuracy, 0.9);
  EXPECT_EQ(run.State().phase, Phase::kFinished);
}

TEST(FinishTest, AFinalVersionThatWasOnlySavedEndsTheRunAndIsNoEvaluation) {
  Driver run(Evaluated(0));
  run.Start();
  FinishTraining(run);
  run.Evaluated(10, 0.9, /*error=*/"", /*samples=*/0);
  EXPECT_EQ(run.Finished()->failure, "");
  EXPECT_EQ(run.State().final_evaluation->version, Version(10));
  EXPECT_FALSE(run.State().last_evaluation.has_value());
  EXPECT_TRUE(run.All<RecordEvaluation>().empty());
}

TEST(FinishTest, APendingEvaluationIsAnsweredFirst) {
  Driver run(Evaluated(36));
  run.Start();
  FinishTraining(run);  // Version 9 is being evaluated.
  EXPECT_EQ(run.All<SendEvaluate>().size(), 1);
  run.Evaluated(9);
  EXPECT_FALSE(run.Finished().has_value());
  ASSERT_EQ(run.All<SendEvaluate>().size(), 2);
  EXPECT_TRUE(run.All<SendEvaluate>()[1].final);
  run.Evaluated(10);
  EXPECT_TRUE(run.Finished().has_value());
}

TEST(FinishTest, EveryDecisionIsExecutedBeforeAllMayGo) {
  Driver run(Job());
  run.Start();
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(run.Deliver(0).ok());
  run.HoldShard(1);
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.State().phase, Phase::kFinishing);
  EXPECT_EQ(run.State().waiting_for, "shard 1");
  EXPECT_FALSE(run.Finished().has_value());
  run.ReleaseShard(1);
  EXPECT_TRUE(run.Finished().has_value());
}

TEST(FinishTest, WithoutAnEvaluatorTheRunEndsAfterTheTimeoutWithAWarning) {
  CoordinatorOptions job = Evaluated(0);
  job.finish_timeout = absl::Seconds(20);
  Driver run(job);
  run.Start();
  run.Leave(kEvaluator);
  FinishTraining(run);
  run.Advance(absl::Seconds(19));
  EXPECT_FALSE(run.Finished().has_value());
  run.Advance(absl::Seconds(1));
  EXPECT_EQ(run.Finished()->failure, "");
  EXPECT_FALSE(run.State().final_evaluation.has_value());
  bool warned = false;
  for (const Announce& announce : run.All<Announce>()) {
    warned = warned || announce.text.find("event=not_evaluated") == 0;
  }
  EXPECT_TRUE(warned);
}

TEST(FinishTest, AnEvaluatorThatWasStoppedLikeTheRunIsNotWaitedFor) {
  for (const bool before : {false, true}) {
    Driver run(Evaluated(0));
    run.Start();
    if (before) run.Leave(kEvaluator, /*for_good=*/true);
    run.RequestStop();
    if (!before) {
      EXPECT_FALSE(run.Finished().has_value());
      run.Leave(kEvaluator, /*for_good=*/true);
    }
    ASSERT_TRUE(run.Finished().has_value());
    EXPECT_EQ(run.Finished()->failure, "");
  }
  // One that comes back is waited for, as is one of a run that ends by itself.
  Driver run(Evaluated(0));
  run.Start();
  run.Leave(kEvaluator);
  run.RequestStop();
  EXPECT_FALSE(run.Finished().has_value());
  Driver other(Evaluated(0));
  other.Start();
  other.Leave(kEvaluator, /*for_good=*/true);
  FinishTraining(other);
  EXPECT_FALSE(other.Finished().has_value());
}

TEST(FinishTest, ThatTheLastVersionIsNotEvaluatedIsSaidOnce) {
  Driver run(Evaluated(1000));
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  run.HoldShard(0);
  run.Leave(kEvaluator, /*for_good=*/true);
  EXPECT_TRUE(run.Deliver(0).ok());
  run.RequestStop();
  run.Advance(absl::Seconds(2));
  int said = 0;
  for (const Announce& announce : run.All<Announce>()) {
    said += announce.text.find("event=not_evaluated") == 0 ? 1 : 0;
  }
  EXPECT_EQ(said, 1);
  EXPECT_FALSE(run.Finished().has_value());
  run.ReleaseShard(0);
  EXPECT_TRUE(run.Finished().has_value());
}

TEST(FinishTest, AnEvaluatorThatComesBackInTimeDoesTheFinalEvaluation) {
  Driver run(Evaluated(0));
  run.Start();
  FinishTraining(run);
  run.Disconnect(kEvaluator);
  EXPECT_TRUE(run.Join(kEvaluator).ok());
  EXPECT_EQ(run.All<SendEvaluate>().size(), 2);
  run.Evaluated(10);
  EXPECT_TRUE(run.Finished().has_value());
}

TEST(FinishTest, AFinalEvaluationThatFailsFailsTheRun) {
  Driver run(Evaluated(0));
  run.Start();
  FinishTraining(run);
  run.Evaluated(10, 0, "disk full");
  EXPECT_EQ(run.Finished()->failure,
            "evaluator: evaluation of version 10: disk full");
}

TEST(FinishTest, AfterTheEndNobodyJoinsAndNothingIsSaid) {
  Driver run(Job());
  run.Start();
  FinishTraining(run);
  run.Forget();
  EXPECT_TRUE(absl::IsUnavailable(run.Join({Role::kWorker, 7}).status()));
  run.Advance(absl::Seconds(60));
  EXPECT_TRUE(run.out().empty());
}

}  // namespace
}  // namespace sluice
