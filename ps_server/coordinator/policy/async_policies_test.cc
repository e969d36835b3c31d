// ASYNC, K_ASYNC, K_BATCH_ASYNC and their staleness bounds, step by step.
#include <vector>

#include "common/random.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/testing/driver.h"
#include "ps_server/coordinator/testing/jobs.h"

namespace sluice {
namespace {

using Batches = std::vector<std::vector<int64_t>>;

CoordinatorOptions Bounded(proto::Policy policy, int workers, int k, int bound,
                           proto::Staleness::Action action) {
  CoordinatorOptions job = SmallJob(policy, workers, k);
  *job.job.mutable_sync()->mutable_staleness() = StalenessBound(bound, action);
  return job;
}

// ---- Policies ----

TEST(AsyncTest, EveryGradientMakesAnUpdateAndTheOthersGoOn) {
  Driver run(SmallJob(proto::ASYNC, 3, 1));
  run.Start();
  const Task slow = *run.TaskOf(0);
  EXPECT_FALSE(slow.exact);
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_TRUE(run.Deliver(2).ok());
  EXPECT_EQ(run.version(), 2);
  EXPECT_EQ(run.TaskOf(0)->key, slow.key);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.CommittedBatches(), (Batches{{1}, {2}, {0}}));
  // Base 0 into version 3: staleness 2; the one before: base 0, staleness 1.
  EXPECT_EQ(run.State().staleness_histogram[0], 1);
  EXPECT_EQ(run.State().staleness_histogram[1], 1);
  EXPECT_EQ(run.State().staleness_histogram[2], 1);
}

TEST(AsyncTest, AWorkerSeesItsOwnUpdate) {
  Driver run(SmallJob(proto::ASYNC, 2, 1));
  run.Start();
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.TaskOf(1)->version, Version(1));
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.TaskOf(0)->version, Version(2));
}

TEST(AsyncTest, TheBaseIsWhatWasPulledNotWhatWasAskedFor) {
  Driver run(SmallJob(proto::ASYNC, 2, 1));
  run.Start();
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_TRUE(run.DeliverAt(0, 2).ok());
  EXPECT_EQ(run.State().mean_staleness, 0);
}

TEST(KAsyncTest, AWorkerThatDeliveredWaitsForTheUpdateThatHoldsItsGradient) {
  Driver run(SmallJob(proto::K_ASYNC, 3, 2));
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_FALSE(run.TaskOf(0).has_value());
  const Task slow = *run.TaskOf(2);
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0, 1}}));
  EXPECT_EQ(run.TaskOf(0)->version, Version(1));
  EXPECT_EQ(run.TaskOf(1)->version, Version(1));
  // The unfinished continues and becomes stale.
  EXPECT_EQ(run.TaskOf(2)->key, slow.key);
  EXPECT_TRUE(run.Deliver(2).ok());
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.CommittedBatches().back(), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(run.All<RecordCommit>().back().entries[0].shard_bases[0],
            Version(0));
}

TEST(KAsyncTest, TheReadyGradientOfADeadWorkerStaysEligible) {
  CoordinatorOptions job = SmallJob(proto::K_ASYNC, 3, 2);
  Driver run(job);
  run.Start();
  const Task ready = *run.TaskOf(0);
  EXPECT_TRUE(run.Deliver(0).ok());
  run.Leave({Role::kWorker, 0});
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0, 1}}));
  // Nobody is there to hear the verdict.
  EXPECT_FALSE(run.VerdictOf(ready.key).has_value());
}

TEST(KBatchAsyncTest, TheNextKGradientsWhoeverDelivers) {
  Driver run(SmallJob(proto::K_BATCH_ASYNC, 2, 3));
  run.Start();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.CommittedBatches(), (Batches{{1, 2, 3}}));
  EXPECT_EQ(run.TaskOf(0)->version, Version(0));
  EXPECT_EQ(run.TaskOf(1)->version, Version(1));
  EXPECT_TRUE(run.All<SendCancel>().empty());
}

TEST(KBatchAsyncTest, AWorkerThatDeliveredGoesOnAtOnce) {
  Driver run(SmallJob(proto::K_BATCH_ASYNC, 2, 3));
  run.Start();
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.BatchOf(1), 2);
  EXPECT_EQ(run.version(), 0);
}

// Between two deliveries of a worker every other worker delivers as often, in
// the long run: by counting, not by chance.
TEST(MeanStalenessTest, IsWhatCountingPredictsWhateverTheOrder) {
  struct Case {
    proto::Policy policy;
    int k;
    double expected;
  };
  constexpr int kWorkers = 4;
  constexpr int kGradients = 4000;
  for (const Case& c :
       {Case{proto::ASYNC, 1, 3.0}, Case{proto::K_ASYNC, 2, (4 - 2) / 2.0},
        Case{proto::K_BATCH_ASYNC, 2, (4 - 1) / 2.0}}) {
    CoordinatorOptions job = SmallJob(c.policy, kWorkers, c.k);
    job.train_samples = kGradients * job.job.data().batch_size();
    Driver run(job);
    run.Start();
    const Random random(1, "order of delivery");
    for (uint64_t i = 0; run.State().phase == Phase::kRunning; ++i) {
      // Some are faster: of 16 turns, 1, 3, 5 and 7.
      const uint64_t turn = random.Uint64(i) % 16;
      const int worker = turn < 1 ? 0 : turn < 4 ? 1 : turn < 9 ? 2 : 3;
      if (!run.TaskOf(worker).has_value()) continue;
      ASSERT_TRUE(run.Deliver(worker).ok());
    }
    // Only what was under way at the end is not counted: at most P gradients,
    // each with a staleness below the number of updates it saw.
    EXPECT_NEAR(run.State().mean_staleness, c.expected, 0.05);
  }
}

// ---- Staleness ----

TEST(StalenessDropTest, AGradientStalerThanTheBoundIsRefused) {
  Driver run(Bounded(proto::ASYNC, 2, 1, 1, proto::Staleness::DROP));
  run.Start();
  const Task slow = *run.TaskOf(0);
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.VerdictOf(slow.key)->outcome, Outcome::kDropped);
  EXPECT_EQ(run.VerdictOf(slow.key)->reason, "staleness 2 exceeds the bound 1");
  EXPECT_EQ(run.CommittedBatches(), (Batches{{1}, {2}}));
  EXPECT_EQ(run.State().counters.dropped, 1);
  // Its mini-batch goes out again; alone and idle, the worker itself takes it.
  EXPECT_EQ(run.BatchOf(0), 0);
  EXPECT_EQ(run.TaskOf(0)->version, Version(2));
}

TEST(StalenessDropTest, AGradientAtTheBoundCounts) {
  Driver run(Bounded(proto::ASYNC, 2, 1, 1, proto::Staleness::DROP));
  run.Start();
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.CommittedBatches(), (Batches{{1}, {0}}));
}

TEST(StalenessDropTest, AVerdictThatDropsFreesAWorkerThatWaits) {
  CoordinatorOptions job =
      Bounded(proto::K_ASYNC, 2, 1, 0, proto::Staleness::DROP);
  job.job.mutable_limits()->set_commit_window(1);
  Driver run(job);
  run.Start();
  run.HoldShard(0);
  EXPECT_TRUE(run.Deliver(0).ok());  // Version 1, which shard 0 lacks.
  EXPECT_TRUE(run.Deliver(0).ok());  // Waits for the window.
  const Task second = *run.TaskOf(1);
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.VerdictOf(second.key)->outcome, Outcome::kDropped);
  run.ReleaseShard(0);
  EXPECT_TRUE(run.TaskOf(1).has_value());
}

TEST(StalenessCancelTest, ARunningTaskIsRevokedOnceItWouldBeTooStale) {
  Driver run(Bounded(proto::ASYNC, 2, 1, 1, proto::Staleness::CANCEL));
  run.Start();
  const Task slow = *run.TaskOf(0);
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.TaskOf(0)->key, slow.key);
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.VerdictOf(slow.key)->outcome, Outcome::kCancelled);
  EXPECT_EQ(run.VerdictOf(slow.key)->reason, "staleness 2 exceeds the bound 1");
  EXPECT_EQ(run.All<SendCancel>().size(), 1);
  // It starts again on fresh weights.
  EXPECT_EQ(run.TaskOf(0)->version, Version(2));
}

TEST(StalenessDownweightTest, AStaleGradientWeighsLess) {
  Driver run(Bounded(proto::ASYNC, 2, 1, 1, proto::Staleness::DOWNWEIGHT));
  run.Start();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_TRUE(run.Deliver(0).ok());  // Staleness 3, two above the bound.
  EXPECT_EQ(run.All<RecordCommit>().back().entries[0].weight, 1.0f / 3);
}

TEST(StalenessWaitTest, AWorkerTooFarAheadWaitsForTheSlowest) {
  Driver run(Bounded(proto::ASYNC, 2, 1, 1, proto::Staleness::WAIT));
  run.Start();
  EXPECT_TRUE(run.Deliver(1).ok());  // 1 to 0: may start.
  EXPECT_TRUE(run.Deliver(1).ok());  // 2 to 0: waits.
  EXPECT_FALSE(run.TaskOf(1).has_value());
  EXPECT_TRUE(run.Deliver(0).ok());  // 2 to 1.
  EXPECT_TRUE(run.TaskOf(1).has_value());
}

TEST(StalenessWaitTest, NobodyWaitsForADeadWorker) {
  Driver run(Bounded(proto::ASYNC, 2, 1, 0, proto::Staleness::WAIT));
  run.Start();
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_FALSE(run.TaskOf(1).has_value());
  run.Leave({Role::kWorker, 0});
  EXPECT_TRUE(run.TaskOf(1).has_value());
}

TEST(StalenessWaitTest, AJoinerStartsAtTheSlowestsCount) {
  Driver run(Bounded(proto::ASYNC, 2, 1, 1, proto::Staleness::WAIT));
  run.Start();
  for (int w : {0, 1, 0, 1}) EXPECT_TRUE(run.Deliver(w).ok());
  run.JoinWorker(2);
  EXPECT_TRUE(run.Deliver(0).ok());  // 3 to 2: the joiner is not at 0.
  EXPECT_TRUE(run.TaskOf(0).has_value());
}

TEST(StalenessTest, SynchronousPoliciesHaveNone) {
  for (proto::Staleness::Action action :
       {proto::Staleness::WAIT, proto::Staleness::DROP}) {
    Driver run(Bounded(proto::K_BATCH_SYNC, 2, 3, 0, action));
    run.Start();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(run.Deliver(1).ok());
    EXPECT_EQ(run.version(), 1);
  }
}

}  // namespace
}  // namespace sluice
