// Too few workers, too little data: nothing hangs, and the missing are named.
#include <vector>

#include "gtest/gtest.h"
#include "ps_server/coordinator/testing/driver.h"
#include "ps_server/coordinator/testing/jobs.h"

namespace sluice {
namespace {

using Batches = std::vector<std::vector<int64_t>>;

const Peer kWorker0{Role::kWorker, 0};
const Peer kWorker1{Role::kWorker, 1};

CoordinatorOptions Job(proto::Policy policy, int workers, int k,
                       proto::OnShortage on_shortage = proto::WAIT) {
  CoordinatorOptions job = SmallJob(policy, workers, k);
  job.job.mutable_sync()->set_on_shortage(on_shortage);
  job.job.mutable_sync()->set_shortage_timeout_s(20);
  return job;
}

CoordinatorOptions Static(proto::Policy policy, int workers, int k,
                          proto::OnShortage on_shortage = proto::WAIT) {
  CoordinatorOptions job = Job(policy, workers, k, on_shortage);
  job.job.mutable_data()->set_sharding(proto::Data::STATIC);
  return job;
}

// ---- Nobody has a task ----

TEST(ShortageTest, AShardThatGivesNoRoomBackIsNamed) {
  CoordinatorOptions job = SmallJob(proto::K_SYNC, 1, 1);
  job.job.mutable_limits()->set_staged_gradients(1);
  Driver run(job);
  run.Start();
  run.HoldShard(1);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_FALSE(run.TaskOf(0).has_value());
  EXPECT_EQ(run.State().waiting_for, "shard 1 to execute decision 2");
  run.ReleaseShard(1);
  EXPECT_TRUE(run.TaskOf(0).has_value());
  EXPECT_EQ(run.State().waiting_for, "");
}

TEST(ShortageTest, AWorkerWhoseConnectionBrokeBeforeItsTaskIsNamed) {
  Driver run(SmallJob(proto::K_ASYNC, 3, 3));
  for (const Peer peer : {Peer{Role::kShard, 0}, Peer{Role::kShard, 1}}) {
    EXPECT_TRUE(run.Join(peer).ok());
  }
  run.JoinWorker(1);
  run.Disconnect(kWorker1);
  run.JoinWorker(0);
  run.JoinWorker(2);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.Deliver(2).ok());
  EXPECT_EQ(run.State().waiting_for, "worker 1 to reconnect");
}

TEST(ShortageTest, AWorkerThatCannotReachAShardIsNamedWithTheShard) {
  Driver run(SmallJob(proto::K_SYNC, 2, 2));
  run.Start();
  EXPECT_EQ(run.State().waiting_for, "");
  run.Advance(absl::Seconds(20));
  run.CannotReach(kWorker1, "shard 0 at host:1", absl::Seconds(12));
  const JobState state = run.State();
  EXPECT_EQ(state.waiting_for,
            "worker 1, which cannot reach shard 0 at host:1");
  EXPECT_EQ(run.now() - state.waiting_since, absl::Seconds(12));
  run.CannotReach(kWorker1, "", absl::ZeroDuration());
  EXPECT_EQ(run.State().waiting_for, "");
}

TEST(ShortageTest, WhatADeadWorkerCouldNotReachIsForgotten) {
  Driver run(SmallJob(proto::K_BATCH_SYNC, 3, 2));
  run.Start();
  run.CannotReach(kWorker1, "shard 0 at host:1", absl::ZeroDuration());
  run.Leave(kWorker1);
  EXPECT_EQ(run.State().waiting_for, "");
  run.JoinWorker(1);
  EXPECT_EQ(run.State().waiting_for, "");
}

// ---- WAIT ----

TEST(ShortageTest, WaitFailsAfterTheTimeoutAndNamesTheMissing) {
  for (proto::Policy policy : {proto::K_SYNC, proto::K_ASYNC}) {
    Driver run(Job(policy, 3, 3));
    run.Start();
    run.Leave(kWorker1);
    EXPECT_TRUE(run.Deliver(0).ok());
    EXPECT_TRUE(run.Deliver(2).ok());
    EXPECT_EQ(run.State().waiting_for,
              "an update needs 3 gradients and 2 workers live; missing: "
              "worker 1");
    run.Advance(absl::Seconds(19));
    EXPECT_FALSE(run.Finished().has_value());
    run.Advance(absl::Seconds(1));
    EXPECT_EQ(run.Finished()->failure,
              "waited 20s for workers: an update needs 3 gradients and 2 "
              "workers live; missing: worker 1");
  }
}

TEST(ShortageTest, AWorkerThatComesBackInTimeEndsTheWait) {
  Driver run(Job(proto::K_SYNC, 2, 2));
  run.Start();
  run.Leave(kWorker1);
  run.Advance(absl::Seconds(15));
  run.JoinWorker(1);
  EXPECT_EQ(run.State().waiting_for, "");
  run.Advance(absl::Seconds(15));
  EXPECT_FALSE(run.Finished().has_value());
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.version(), 1);
}

TEST(ShortageTest, ANewcomerEndsTheWaitInAnothersPlace) {
  for (proto::Policy policy : {proto::K_SYNC, proto::K_ASYNC}) {
    Driver run(Job(policy, 2, 2));
    run.Start();
    run.Leave(kWorker1);
    EXPECT_NE(run.State().waiting_for, "");
    run.JoinWorker(3);
    EXPECT_EQ(run.State().waiting_for, "");
    EXPECT_TRUE(run.Deliver(0).ok());
    EXPECT_TRUE(run.Deliver(3).ok());
    EXPECT_EQ(run.version(), 1);
  }
}

TEST(ShortageTest, ANewcomerThatLeavesIsNotMissed) {
  Driver run(Job(proto::K_SYNC, 2, 2));
  run.Start();
  run.JoinWorker(3);
  run.Leave({Role::kWorker, 3});
  EXPECT_EQ(run.State().waiting_for, "");
  run.Leave(kWorker1);
  EXPECT_EQ(run.State().waiting_for,
            "an update needs 2 gradients and 1 workers live; missing: worker "
            "1");
}

TEST(ShortageTest, AReadyGradientOfADeadWorkerIsNoShortage) {
  Driver run(Job(proto::K_ASYNC, 3, 3));
  run.Start();
  EXPECT_TRUE(run.Deliver(1).ok());
  run.Leave(kWorker1);
  EXPECT_EQ(run.State().waiting_for, "");
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.Deliver(2).ok());
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0, 1, 2}}));
  EXPECT_NE(run.State().waiting_for, "");
}

TEST(ShortageTest, WithoutAnyWorkerEveryPolicyFailsAfterTheTimeout) {
  for (proto::Policy policy :
       {proto::SYNC, proto::K_SYNC, proto::K_BATCH_SYNC, proto::ASYNC,
        proto::K_ASYNC, proto::K_BATCH_ASYNC}) {
    for (proto::OnShortage rule : {proto::WAIT, proto::SHRINK}) {
      Driver run(Job(policy, 2, 1, rule));
      run.Start();
      run.Leave(kWorker0);
      run.Leave(kWorker1);
      run.Advance(absl::Seconds(19));
      EXPECT_FALSE(run.Finished().has_value());
      run.Advance(absl::Seconds(2));
      ASSERT_TRUE(run.Finished().has_value());
      EXPECT_EQ(run.Finished()->failure,
                "waited 20s for workers: an update needs 1 gradients and 0 "
                "workers live; missing: worker 0, worker 1");
    }
  }
}

// ---- SHRINK ----

TEST(ShortageTest, ShrinkUsesTheLivingWorkers) {
  for (proto::Policy policy : {proto::K_SYNC, proto::K_ASYNC}) {
    Driver run(Job(policy, 3, 3, proto::SHRINK));
    run.Start();
    EXPECT_TRUE(run.Deliver(0).ok());
    EXPECT_TRUE(run.Deliver(2).ok());
    EXPECT_EQ(run.version(), 0);
    run.Leave(kWorker1);
    EXPECT_EQ(run.CommittedBatches(), (Batches{{0, 2}}));
    EXPECT_EQ(run.All<RecordCommit>().back().entries[0].weight, 0.5f);
    // And grows again with the next worker that joins.
    run.JoinWorker(4);
    EXPECT_TRUE(run.Deliver(0).ok());
    EXPECT_TRUE(run.Deliver(2).ok());
    EXPECT_EQ(run.version(), 1);
    EXPECT_TRUE(run.Deliver(4).ok());
    EXPECT_EQ(run.version(), 2);
  }
}

TEST(ShortageTest, ShrinkDoesNotTakeMoreThanK) {
  Driver run(Job(proto::K_SYNC, 4, 2, proto::SHRINK));
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0, 1}}));
}

// ---- The end of the run ----

TEST(EffectiveKTest, AMiniBatchThatIsLeftOutIsNotWaitedFor) {
  CoordinatorOptions job = Job(proto::SYNC, 2, 2);
  job.job.mutable_sync()->set_on_bad_gradient(proto::SKIP);
  Driver run(job);
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.Reject(1).ok());
  EXPECT_EQ(run.BatchOf(0), 1);
  EXPECT_TRUE(run.Reject(0).ok());
  // The weights of the rest match, and the next version is not shifted.
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0}}));
  EXPECT_EQ(run.All<RecordCommit>().back().entries[0].weight, 1.0f);
  EXPECT_EQ(run.BatchOf(0), 2);
  EXPECT_EQ(run.BatchOf(1), 3);
}

TEST(EffectiveKTest, AVersionWhoseMiniBatchesAreAllBadIsPassedOver) {
  CoordinatorOptions job = Job(proto::SYNC, 1, 1);
  job.job.mutable_sync()->set_on_bad_gradient(proto::SKIP);
  Driver run(job);
  run.Start();
  EXPECT_TRUE(run.Reject(0).ok());
  EXPECT_TRUE(run.Reject(0).ok());
  EXPECT_EQ(run.version(), 0);
  EXPECT_EQ(run.BatchOf(0), 1);
}

TEST(EffectiveKTest, KAsyncEndsWithFewerMiniBatchesThanK) {
  CoordinatorOptions job = Job(proto::K_ASYNC, 3, 3);
  job.train_samples = 16;  // Four mini-batches.
  Driver run(job);
  run.Start();
  for (int w = 0; w < 3; ++w) EXPECT_TRUE(run.Deliver(w).ok());
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0, 1, 2}, {3}}));
  EXPECT_TRUE(run.Finished().has_value());
}

TEST(EffectiveKTest, ADeathThatLeavesTooLittleMakesTheUpdateDue) {
  CoordinatorOptions job = Job(proto::K_BATCH_ASYNC, 2, 4);
  job.train_samples = 12;  // Three mini-batches, K is 4.
  Driver run(job);
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.version(), 0);
  run.Leave(kWorker1);
  EXPECT_EQ(run.BatchOf(0), 1);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0, 1, 2}}));
}

// ---- STATIC partitions ----

TEST(StaticTest, UnequalNumbersOfMiniBatchesDoNotHang) {
  CoordinatorOptions job = Static(proto::K_SYNC, 2, 2);
  job.train_samples = 9;  // Two mini-batches and one.
  Driver run(job);
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_FALSE(run.TaskOf(1).has_value());
  EXPECT_EQ(run.State().waiting_for, "");
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0, 1}, {2}}));
  EXPECT_TRUE(run.Finished().has_value());
}

TEST(StaticTest, APartitionWithoutAWorkerIsWaitedForUnderEveryPolicy) {
  for (proto::Policy policy : {proto::SYNC, proto::K_SYNC, proto::ASYNC}) {
    Driver run(Static(policy, 2, policy == proto::SYNC ? 2 : 1));
    run.Start();
    run.Leave(kWorker1);
    EXPECT_NE(run.State().waiting_for.find("missing: worker 1"),
              std::string::npos);
    run.Advance(absl::Seconds(21));
    EXPECT_NE(run.Finished()->failure, "");
  }
}

TEST(StaticTest, ShrinkGoesOnWithoutThePartitionAndSaysWhatIsLeftOut) {
  Driver run(Static(proto::ASYNC, 2, 1, proto::SHRINK));
  run.Start();
  run.Leave(kWorker1);
  while (run.TaskOf(0).has_value()) EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0}, {2}, {4}, {6}, {8}}));
  EXPECT_EQ(run.Finished()->failure, "");
  EXPECT_EQ(run.Finished()->reason,
            "1 epochs done, but for 5 mini-batches that nobody serves");
}

TEST(StaticTest, SyncShrinksToTheServedPartitionsOfEachVersion) {
  Driver run(Static(proto::SYNC, 2, 2, proto::SHRINK));
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  run.Leave(kWorker1);
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0}}));
  run.JoinWorker(1);
  EXPECT_EQ(run.BatchOf(0), 2);
  EXPECT_EQ(run.BatchOf(1), 3);
}

TEST(StaticTest, NobodyWaitsForAWorkerWhoseDataIsExhausted) {
  CoordinatorOptions job = Static(proto::ASYNC, 2, 1);
  job.train_samples = 9;
  job.job.mutable_stop()->set_epochs(4);
  *job.job.mutable_sync()->mutable_staleness() =
      StalenessBound(0, proto::Staleness::WAIT);
  Driver run(job);
  run.Start();
  while (!run.Finished().has_value()) {
    const int worker = run.TaskOf(1).has_value() ? 1 : 0;
    ASSERT_TRUE(run.TaskOf(worker).has_value());
    ASSERT_TRUE(run.Deliver(worker).ok());
  }
  EXPECT_EQ(run.CommittedBatches().size(), 12);
}

// ---- Warm-up ----

TEST(WarmStartTest, OneWorkerMakesTheFirstUpdatesAlone) {
  CoordinatorOptions job = Job(proto::K_ASYNC, 3, 3);
  job.job.mutable_sync()->set_warm_start_updates(2);
  Driver run(job);
  run.Start();
  for (int update = 0; update < 2; ++update) {
    EXPECT_TRUE(run.TaskOf(0).has_value());
    EXPECT_FALSE(run.TaskOf(1).has_value());
    EXPECT_FALSE(run.TaskOf(2).has_value());
    EXPECT_TRUE(run.Deliver(0).ok());
  }
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0}, {1}}));
  for (int w = 0; w < 3; ++w) EXPECT_TRUE(run.TaskOf(w).has_value());
}

TEST(WarmStartTest, AnotherTakesOverWhenTheLoneWorkerDies) {
  CoordinatorOptions job = Job(proto::ASYNC, 2, 1);
  job.job.mutable_sync()->set_warm_start_updates(2);
  Driver run(job);
  run.Start();
  run.Leave(kWorker0);
  EXPECT_EQ(run.BatchOf(1), 0);
}

TEST(WarmStartTest, AfterItNobodyIsAheadOfTheOthers) {
  CoordinatorOptions job = Job(proto::ASYNC, 2, 1);
  job.job.mutable_sync()->set_warm_start_updates(3);
  *job.job.mutable_sync()->mutable_staleness() =
      StalenessBound(0, proto::Staleness::WAIT);
  Driver run(job);
  run.Start();
  for (int update = 0; update < 3; ++update) EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.TaskOf(0).has_value());
  EXPECT_TRUE(run.TaskOf(1).has_value());
}

}  // namespace
}  // namespace sluice
