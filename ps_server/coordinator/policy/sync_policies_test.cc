// SYNC, K_SYNC and K_BATCH_SYNC, step by step.
#include <vector>

#include "gtest/gtest.h"
#include "ps_server/coordinator/testing/driver.h"
#include "ps_server/coordinator/testing/jobs.h"

namespace sluice {
namespace {

using Batches = std::vector<std::vector<int64_t>>;

// ---- SYNC ----

TEST(SyncTest, AVersionConsistsOfTheNextMiniBatchesInOrder) {
  Driver run(SmallJob(proto::SYNC, 2, 2));
  run.Start();
  for (int update = 0; update < 5; ++update) {
    EXPECT_TRUE(run.Deliver(1).ok());
    EXPECT_TRUE(run.Deliver(0).ok());
  }
  EXPECT_EQ(run.CommittedBatches(),
            (Batches{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}}));
  ASSERT_TRUE(run.Finished().has_value());
  EXPECT_EQ(run.Finished()->failure, "");
}

TEST(SyncTest, AWorkerThatDeliveredTakesTheNextTaskOfTheSameVersion) {
  Driver run(SmallJob(proto::SYNC, 2, 3));
  run.Start();
  EXPECT_EQ(run.BatchOf(0), 0);
  EXPECT_EQ(run.BatchOf(1), 1);
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.BatchOf(1), 2);
  EXPECT_EQ(run.TaskOf(1)->version, Version(0));
  EXPECT_TRUE(run.Deliver(1).ok());
  // There is none left: it waits for the next version.
  EXPECT_FALSE(run.TaskOf(1).has_value());
  EXPECT_EQ(run.version(), 0);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0, 1, 2}}));
  EXPECT_EQ(run.TaskOf(1)->version, Version(1));
}

TEST(SyncTest, MoreWorkersThanMiniBatchesLeaveSomeIdle) {
  Driver run(SmallJob(proto::SYNC, 4, 2));
  run.Start();
  EXPECT_EQ(run.BatchOf(1), 1);
  EXPECT_FALSE(run.TaskOf(2).has_value());
  EXPECT_FALSE(run.TaskOf(3).has_value());
}

TEST(SyncTest, ADeadWorkersMiniBatchIsComputedByAnother) {
  Driver run(SmallJob(proto::SYNC, 2, 2));
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  run.Leave({Role::kWorker, 1});
  EXPECT_EQ(run.BatchOf(0), 1);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0, 1}}));
}

TEST(SyncTest, TheLastVersionTakesWhatIsLeft) {
  Driver run(SmallJob(proto::SYNC, 4, 4));
  run.Start();
  for (int update = 0; update < 2; ++update) {
    for (int w = 0; w < 4; ++w) EXPECT_TRUE(run.Deliver(w).ok());
  }
  EXPECT_FALSE(run.TaskOf(2).has_value());
  for (int w = 0; w < 2; ++w) EXPECT_TRUE(run.Deliver(w).ok());
  EXPECT_EQ(run.CommittedBatches().back(), (std::vector<int64_t>{8, 9}));
  EXPECT_EQ(run.All<RecordCommit>().back().entries[0].weight, 0.5f);
  EXPECT_TRUE(run.Finished().has_value());
}

TEST(SyncTest, WithLocalStepsAVersionHoldsPTimesHMiniBatches) {
  CoordinatorOptions job = SmallJob(proto::SYNC, 2, 2);
  job.job.mutable_sync()->set_local_steps(2);
  job.job.mutable_optimizer()->set_learning_rate(0.25);
  job.job.mutable_schedule()->set_linear_scaling(true);
  Driver run(job);
  run.Start();
  EXPECT_EQ(run.BatchOf(1), 2);
  EXPECT_EQ(run.TaskOf(1)->batches, 2);
  EXPECT_EQ(run.TaskOf(1)->local_learning_rate, 0.25);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0, 2}}));
  EXPECT_EQ(run.BatchOf(0), 4);
}

TEST(SyncTest, TasksPullExactlyTheVersionTheyAreFor) {
  Driver run(SmallJob(proto::SYNC, 2, 2));
  run.Start();
  EXPECT_TRUE(run.TaskOf(0)->exact);
  const Task task = *run.TaskOf(0);
  EXPECT_TRUE(absl::IsInvalidArgument(run.Deliver(task, 1)));
  EXPECT_TRUE(run.Deliver(task, 0).ok());
}

// ---- K_SYNC ----

TEST(KSyncTest, TheKthGradientCommitsTheUpdateAndCancelsTheRest) {
  Driver run(SmallJob(proto::K_SYNC, 3, 2));
  run.Start();
  const Task straggler = *run.TaskOf(1);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.version(), 0);
  EXPECT_TRUE(run.Deliver(2).ok());
  EXPECT_EQ(run.version(), 1);
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0, 2}}));
  EXPECT_EQ(run.VerdictOf(straggler.key)->outcome, Outcome::kCancelled);
  EXPECT_EQ(run.VerdictOf(straggler.key)->reason,
            "version 1 was made of other gradients");
  EXPECT_EQ(run.All<SendCancel>().size(), 1);
  EXPECT_TRUE(absl::IsAborted(run.Deliver(straggler, 0)));
}

TEST(KSyncTest, TheCancelledMiniBatchGoesOutAgainFirstToSomebodyElse) {
  Driver run(SmallJob(proto::K_SYNC, 3, 2));
  run.Start();
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_TRUE(run.Deliver(2).ok());
  // Worker 0 had mini-batch 0.
  EXPECT_EQ(run.BatchOf(1), 0);
  EXPECT_EQ(run.BatchOf(0), 3);
  EXPECT_EQ(run.BatchOf(2), 4);
}

TEST(KSyncTest, AWorkerThatDeliveredWaitsForTheNextVersion) {
  Driver run(SmallJob(proto::K_SYNC, 3, 2));
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_FALSE(run.TaskOf(0).has_value());
  EXPECT_TRUE(run.Deliver(1).ok());
  for (int w = 0; w < 3; ++w) {
    EXPECT_EQ(run.TaskOf(w)->version, Version(1));
    EXPECT_TRUE(run.TaskOf(w)->exact);
  }
}

TEST(KSyncTest, AJoinerInTheMiddleOfAVersionCountsAtOnce) {
  Driver run(SmallJob(proto::K_SYNC, 2, 2));
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  run.JoinWorker(3);
  EXPECT_EQ(run.TaskOf(3)->version, Version(0));
  EXPECT_TRUE(run.Deliver(3).ok());
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0, 2}}));
}

TEST(KSyncTest, ANewLifeOfAWorkerThatDeliveredWaitsToo) {
  Driver run(SmallJob(proto::K_SYNC, 3, 2));
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  run.Disconnect({Role::kWorker, 0});
  run.JoinWorker(0);
  // Two gradients of one worker are not the first K of P workers.
  EXPECT_FALSE(run.TaskOf(0).has_value());
  EXPECT_TRUE(run.Deliver(2).ok());
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0, 2}}));
  EXPECT_EQ(run.TaskOf(0)->key.incarnation, Incarnation(2));
}

TEST(KSyncTest, TheLastUpdateTakesWhatIsLeft) {
  CoordinatorOptions job = SmallJob(proto::K_SYNC, 4, 3);
  job.train_samples = 16;
  Driver run(job);
  run.Start();
  for (int w = 1; w < 4; ++w) EXPECT_TRUE(run.Deliver(w).ok());
  // One mini-batch is left, K is 3.
  EXPECT_EQ(run.BatchOf(1), 0);
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.CommittedBatches(), (Batches{{1, 2, 3}, {0}}));
  EXPECT_TRUE(run.Finished().has_value());
}

TEST(KSyncTest, SumsAreInMiniBatchOrderWhateverTheOrderOfArrival) {
  Driver run(SmallJob(proto::K_SYNC, 3, 3));
  run.Start();
  for (int w : {2, 0, 1}) EXPECT_TRUE(run.Deliver(w).ok());
  const auto commit = run.Decisions<Commit>().at(0);
  EXPECT_EQ(commit.entries[0].key.worker, WorkerId(0));
  EXPECT_EQ(commit.entries[1].key.worker, WorkerId(1));
  EXPECT_EQ(commit.entries[2].key.worker, WorkerId(2));
}

// ---- K_BATCH_SYNC ----

TEST(KBatchSyncTest, AWorkerThatDeliveredStartsAnotherAtTheSameVersion) {
  Driver run(SmallJob(proto::K_BATCH_SYNC, 2, 3));
  run.Start();
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.BatchOf(1), 2);
  EXPECT_EQ(run.TaskOf(1)->version, Version(0));
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.BatchOf(1), 3);
  const Task slow = *run.TaskOf(0);
  EXPECT_TRUE(run.Deliver(1).ok());
  // Three of one worker: whoever computed them.
  EXPECT_EQ(run.CommittedBatches(), (Batches{{1, 2, 3}}));
  EXPECT_EQ(run.VerdictOf(slow.key)->outcome, Outcome::kCancelled);
  EXPECT_EQ(run.TaskOf(0)->version, Version(1));
}

TEST(KBatchSyncTest, KMayExceedTheNumberOfWorkersAndOfWhatIsLeft) {
  Driver run(SmallJob(proto::K_BATCH_SYNC, 2, 8));
  run.Start();
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.version(), 1);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.CommittedBatches().back().size(), 2);
  EXPECT_TRUE(run.Finished().has_value());
}

}  // namespace
}  // namespace sluice
