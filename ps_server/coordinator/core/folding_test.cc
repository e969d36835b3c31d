// SYNC where shards have room for fewer gradients than an update takes.
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/testing/driver.h"
#include "ps_server/coordinator/testing/jobs.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Three workers and gradients; shards have room for one.
CoordinatorOptions FoldingJob() {
  CoordinatorOptions job = SmallJob(proto::SYNC, 3, 3);
  job.job.mutable_limits()->set_staged_gradients(1);
  return job;
}

// Every worker delivers what it is given.
void RunToTheEnd(Driver& run) {
  run.Start();
  while (!run.Finished().has_value()) {
    for (int worker = 0; worker < 3; ++worker) {
      if (!run.TaskOf(worker).has_value()) continue;
      EXPECT_TRUE(run.Deliver(worker).ok());
    }
  }
  EXPECT_EQ(run.Finished()->failure, "");
}

TEST(FoldingTest, WhatIsReadyInOrderIsFoldedAndTheCommitBringsTheRest) {
  Driver run(FoldingJob());
  run.Start();
  std::vector<GradientKey> keys;
  for (int worker = 0; worker < 3; ++worker) {
    keys.push_back(run.TaskOf(worker)->key);
    EXPECT_EQ(run.TaskOf(worker)->turn, worker);
  }
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_THAT(run.Decisions<Fold>(), IsEmpty());
  EXPECT_TRUE(run.Deliver(0).ok());
  const float third = 1.0f / 3;
  EXPECT_THAT(run.Decisions<Fold>(),
              ElementsAre(Fold{Version(1),
                               3 * static_cast<double>(third),
                               {{keys[0], third}, {keys[1], third}}}));
  EXPECT_TRUE(run.Deliver(2).ok());
  EXPECT_THAT(run.Decisions<Fold>(), SizeIs(1));
  const Commit commit = run.Decisions<Commit>().at(0);
  EXPECT_EQ(commit.folded, 2);
  EXPECT_THAT(commit.entries, ElementsAre(CommitEntry{keys[0], third},
                                          CommitEntry{keys[1], third},
                                          CommitEntry{keys[2], third}));
  EXPECT_EQ(run.TaskOf(2)->turn, 2) << "of the next update";
}

TEST(FoldingTest, TheMiniBatchOfADeadWorkerKeepsItsTurn) {
  Driver run(FoldingJob());
  run.Start();
  EXPECT_TRUE(run.Deliver(1).ok());
  run.Leave({Role::kWorker, 0});
  EXPECT_EQ(run.TaskOf(1)->turn, 0);
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_THAT(run.Decisions<Fold>().at(0).entries, SizeIs(2));
  EXPECT_TRUE(run.Deliver(2).ok());
  EXPECT_EQ(run.version(), 1);
}

// ---- Shards take nothing behind their room, so those who wait there deliver
// nothing before the mini-batch whose turn it is. ----

TEST(FoldingTest, WhoWaitsBehindAMiniBatchThatCameBackComputesIt) {
  Driver run(FoldingJob());
  run.Start();
  const Task last = *run.TaskOf(2);
  run.Leave({Role::kWorker, 0}, /*for_good=*/true);
  EXPECT_EQ(run.VerdictOf(last.key)->outcome, Outcome::kCancelled);
  EXPECT_EQ(run.VerdictOf(last.key)->reason,
            "its worker is needed for mini-batch 0, whose turn comes first");
  EXPECT_EQ(run.TaskOf(2)->turn, 0);
  EXPECT_EQ(run.TaskOf(1)->turn, 1) << "the last one gives its task up";
  EXPECT_TRUE(run.Deliver(2).ok());
  EXPECT_EQ(run.TaskOf(2)->turn, 2) << "nothing is left out";
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_TRUE(run.Deliver(2).ok());
  EXPECT_EQ(run.version(), 1);
}

TEST(FoldingTest, WhoIsAdmittedEndsItsTaskAndThenTakesWhatCameBack) {
  CoordinatorOptions job = SmallJob(proto::SYNC, 3, 8);
  job.job.mutable_limits()->set_staged_gradients(2);
  Driver run(job);
  run.Start();
  run.Leave({Role::kWorker, 0}, /*for_good=*/true);
  EXPECT_EQ(run.TaskOf(1)->turn, 1);
  EXPECT_EQ(run.TaskOf(2)->turn, 2) << "worker 1 will be free";
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.TaskOf(1)->turn, 0);
  EXPECT_EQ(run.TaskOf(2)->turn, 2);
}

TEST(FoldingTest, ABadGradientGoesToOneWhoWaitsBehindIt) {
  Driver run(FoldingJob());
  run.Start();
  EXPECT_TRUE(run.Reject(0).ok());
  EXPECT_EQ(run.TaskOf(2)->turn, 0) << "somebody else computes it";
  EXPECT_EQ(run.TaskOf(1)->turn, 1);
  EXPECT_EQ(run.TaskOf(0)->turn, 2);
}

TEST(FoldingTest, ABadGradientWaitsForTheOneWhoMayComeBackToComputeIt) {
  CoordinatorOptions job = FoldingJob();
  job.job.mutable_limits()->set_lease_s(10);
  Driver run(job);
  run.Start();
  run.Disconnect({Role::kWorker, 1});
  run.Disconnect({Role::kWorker, 2});
  EXPECT_TRUE(run.Reject(0).ok());
  EXPECT_EQ(run.TaskOf(0), std::nullopt);
  run.Silence({Role::kWorker, 1});
  run.Silence({Role::kWorker, 2});
  run.Advance(absl::Seconds(11));
  EXPECT_EQ(run.TaskOf(0)->turn, 0) << "there is nobody else";
}

TEST(FoldingTest, WhoIsSuspectKeepsItsTask) {
  Driver run(FoldingJob());
  run.Start();
  run.Disconnect({Role::kWorker, 2});
  run.Leave({Role::kWorker, 0}, /*for_good=*/true);
  EXPECT_EQ(run.TaskOf(2)->turn, 2);
  EXPECT_EQ(run.TaskOf(1)->turn, 0);
}

// Each worker has its own mini-batches; worker 0's wait for it.
TEST(FoldingTest, NobodyGivesItsTaskUpForAnothersPartition) {
  CoordinatorOptions job = FoldingJob();
  job.job.mutable_data()->set_sharding(proto::Data::STATIC);
  Driver run(job);
  run.Start();
  run.Leave({Role::kWorker, 0});
  EXPECT_EQ(run.TaskOf(1)->turn, 1);
  EXPECT_EQ(run.TaskOf(2)->turn, 2);
  run.JoinWorker(0);
  EXPECT_EQ(run.TaskOf(0)->turn, 0);
}

TEST(FoldingTest, TheTimeOfATaskBeginsWithItsTurn) {
  CoordinatorOptions job = FoldingJob();
  job.job.mutable_limits()->set_task_deadline_s(30);
  Driver run(job);
  run.Start();
  const Task second = *run.TaskOf(1), third = *run.TaskOf(2);
  run.Advance(absl::Seconds(20));
  EXPECT_TRUE(run.Deliver(0).ok());
  run.Advance(absl::Seconds(25));
  EXPECT_EQ(run.VerdictOf(second.key), std::nullopt);
  EXPECT_EQ(run.VerdictOf(third.key), std::nullopt);
  run.Advance(absl::Seconds(6));
  EXPECT_EQ(run.VerdictOf(second.key)->outcome, Outcome::kCancelled);
  EXPECT_EQ(run.VerdictOf(third.key), std::nullopt);
}

TEST(FoldingTest, TheLastUpdateMayBeShort) {
  Driver run(FoldingJob());  // Ten mini-batches.
  RunToTheEnd(run);
  const std::vector<Commit> commits = run.Decisions<Commit>();
  ASSERT_THAT(commits, SizeIs(4));
  EXPECT_THAT(commits[3].entries, SizeIs(1));
  EXPECT_EQ(commits[3].folded, 0);
}

// The partitions have 4, 3 and 3 mini-batches, in each of two epochs.
TEST(FoldingTest, PartitionsOfDifferentSizesAreFoldedAsWell) {
  CoordinatorOptions job = FoldingJob();
  job.job.mutable_data()->set_sharding(proto::Data::STATIC);
  job.train_samples = 37;
  job.job.mutable_stop()->set_epochs(2);
  Driver run(job);
  RunToTheEnd(run);
  size_t gradients = 0;
  for (const Commit& commit : run.Decisions<Commit>()) {
    gradients += commit.entries.size();
  }
  EXPECT_EQ(gradients, 2u * (4 + 3 + 3));
  EXPECT_GT(run.Decisions<Fold>().size(), 0u);
}

TEST(FoldingTest, WithRoomForAllNothingIsFolded) {
  Driver run(SmallJob(proto::SYNC, 3, 3));
  run.Start();
  EXPECT_EQ(run.TaskOf(0)->turn, std::nullopt);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_THAT(run.Decisions<Fold>(), IsEmpty());
}

}  // namespace
}  // namespace sluice
