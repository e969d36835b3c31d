// A task from its grant to its verdict: keys, ends, repeats, deadlines, bad
// gradients, room and the commit window.
#include <cmath>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/testing/driver.h"
#include "ps_server/coordinator/testing/jobs.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;
using Batches = std::vector<std::vector<int64_t>>;

const Peer kWorker0{Role::kWorker, 0};
const Peer kWorker1{Role::kWorker, 1};

template <typename T>
size_t PositionOf(const Actions& actions) {
  for (size_t i = 0; i < actions.size(); ++i) {
    if (std::holds_alternative<T>(actions[i])) return i;
  }
  return actions.size();
}

// ---- Keys ----

TEST(TaskTest, CarriesTheGeneration) {
  CoordinatorOptions job = SmallJob(proto::SYNC, 1, 1);
  job.generation = Generation(7);
  job.grant_secret = "42";
  Driver run(job);
  run.Start();
  const Task task = *run.TaskOf(0);
  EXPECT_EQ(task.key.ToString(), "g7/w0/i1/s1");
  EXPECT_EQ(run.Decisions<Restore>().at(0).grant_secret, "42");
}

TEST(TaskTest, AnotherGenerationsGradientIsRefused) {
  Driver run(SmallJob(proto::SYNC, 1, 1));
  run.Start();
  Task task = *run.TaskOf(0);
  task.key.generation = Generation(9);
  EXPECT_TRUE(absl::IsAborted(run.Deliver(task, 0)));
}

// ---- Order of actions ----

TEST(TaskTest, RecordsComeBeforeWhatFollowsFromThem) {
  Driver run(SmallJob(proto::K_SYNC, 2, 1));
  run.Start();
  EXPECT_LT(PositionOf<RecordTask>(run.out()), PositionOf<SendTask>(run.out()));
  run.Forget();
  EXPECT_TRUE(run.Deliver(0).ok());
  const Actions& out = run.out();
  EXPECT_LT(PositionOf<RecordCommit>(out), PositionOf<SendDecision>(out));
  EXPECT_LT(PositionOf<SendDecision>(out), PositionOf<SendVerdict>(out));
  EXPECT_LT(PositionOf<RecordEnd>(out), PositionOf<SendCancel>(out));
  EXPECT_LT(PositionOf<SendCancel>(out), PositionOf<SendTask>(out));
}

TEST(TaskTest, TheRecordSaysHowLongAGradientWaitedForItsVerdict) {
  Driver run(SmallJob(proto::K_BATCH_ASYNC, 3, 2));
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  run.Advance(absl::Seconds(2));
  EXPECT_TRUE(run.Deliver(1).ok());
  const RecordCommit commit = run.All<RecordCommit>().at(0);
  EXPECT_EQ(commit.entries[0].waited, absl::Seconds(2));
  EXPECT_EQ(commit.entries[1].waited, absl::ZeroDuration());

  // Worker 0 delivers and begins anew, worker 1 is computing still.
  EXPECT_TRUE(run.Deliver(0).ok());
  run.Advance(absl::Seconds(1));
  run.RequestStop();
  const auto ends = run.All<RecordEnd>();
  ASSERT_EQ(ends.size(), 4);
  EXPECT_EQ(ends[0].waited, absl::ZeroDuration());
  EXPECT_EQ(ends[3].waited, absl::Seconds(1));
}

TEST(TaskTest, TheRecordSaysWhetherTheWorkerWasLostBeforeItDelivered) {
  Driver run(SmallJob(proto::SYNC, 3, 3));
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.ReportDeath({Role::kWorker, 0}, "worker 0").ok());
  EXPECT_TRUE(run.All<RecordEnd>().empty()) << "every shard has its gradient";
  EXPECT_TRUE(run.ReportDeath(kWorker1, "worker 1").ok());
  run.RequestStop();
  const auto ends = run.All<RecordEnd>();
  ASSERT_EQ(ends.size(), 3);
  for (const RecordEnd& end : ends) {
    EXPECT_EQ(end.worker_lost, end.key.worker == WorkerId(1))
        << end.key.ToString();
  }
}

// ---- Repeats and ends ----

TEST(TaskTest, ARepeatedReadyCountsOnce) {
  Driver run(SmallJob(proto::K_BATCH_ASYNC, 2, 3));
  run.Start();
  const Task task = *run.TaskOf(0);
  EXPECT_TRUE(run.Deliver(task, 0).ok());
  EXPECT_TRUE(run.Deliver(task, 0).ok());
  EXPECT_TRUE(run.Deliver(task, 0).ok());
  EXPECT_EQ(run.version(), 0);
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.version(), 1);
  EXPECT_TRUE(absl::IsAborted(run.Deliver(task, 0)));
  EXPECT_EQ(run.version(), 1);
}

TEST(TaskTest, AReadyForAnEndedTaskIsRefusedAndCountsNothing) {
  Driver run(SmallJob(proto::K_SYNC, 2, 1));
  run.Start();
  const Task straggler = *run.TaskOf(1);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(
      run.Deliver(straggler, 0),
      absl::AbortedError(straggler.key.ToString() + ": its task has ended"));
  EXPECT_EQ(run.State().counters.cancelled, 1);
  EXPECT_EQ(run.State().counters.applied, 1);
  EXPECT_EQ(run.version(), 1);
}

TEST(TaskTest, AnUnappliedGradientIsDiscardedEverywhere) {
  Driver run(SmallJob(proto::K_SYNC, 2, 1));
  run.Start();
  const Task straggler = *run.TaskOf(1);
  EXPECT_TRUE(run.Deliver(0).ok());
  ASSERT_EQ(run.Decisions<Discard>().size(), 1);
  EXPECT_THAT(run.Decisions<Discard>()[0].keys, ElementsAre(straggler.key));
}

TEST(TaskTest, AllThatAnUpdateOutdatesIsDiscardedAtOnce) {
  Driver run(SmallJob(proto::K_SYNC, 4, 1));
  run.Start();
  std::vector<GradientKey> others;
  for (const int worker : {0, 1, 3}) {
    others.push_back(run.TaskOf(worker)->key);
  }
  EXPECT_TRUE(run.Deliver(2).ok());
  ASSERT_EQ(run.Decisions<Discard>().size(), 1);
  EXPECT_THAT(run.Decisions<Discard>()[0].keys,
              UnorderedElementsAreArray(others));
}

TEST(TaskTest, ANewIncarnationEndsTheOlderTask) {
  Driver run(SmallJob(proto::SYNC, 2, 2));
  run.Start();
  const Task old = *run.TaskOf(1);
  run.Disconnect(kWorker1);
  run.JoinWorker(1);
  EXPECT_EQ(run.TaskOf(1)->key.incarnation, Incarnation(2));
  EXPECT_EQ(run.BatchOf(1), 1);
  EXPECT_TRUE(absl::IsAborted(run.Deliver(old, 0)));
  EXPECT_EQ(run.All<EndSession>().size(), 1);
  ASSERT_EQ(run.All<RecordEnd>().size(), 1);
  EXPECT_TRUE(run.All<RecordEnd>()[0].worker_lost);
  // The old life is not told: it is gone.
  EXPECT_TRUE(run.All<SendVerdict>().empty());
}

TEST(TaskTest, ReadyGradientsOfAnOlderIncarnationStayEligible) {
  Driver run(SmallJob(proto::SYNC, 2, 2));
  run.Start();
  EXPECT_TRUE(run.Deliver(1).ok());
  run.Disconnect(kWorker1);
  run.JoinWorker(1);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0, 1}}));
  EXPECT_EQ(run.All<RecordCommit>()[0].entries[1].key.incarnation,
            Incarnation(1));
}

TEST(TaskTest, ASuspectWorkerKeepsItsTaskAndStartsNoOther) {
  Driver run(SmallJob(proto::ASYNC, 2, 1));
  run.Start();
  run.Disconnect(kWorker0);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.version(), 1);
  EXPECT_FALSE(run.TaskOf(0).has_value());
  EXPECT_TRUE(run.Join(kWorker0, /*resume=*/1)->resumed);
  EXPECT_TRUE(run.TaskOf(0).has_value());
}

// ---- What computing took ----

TEST(TaskTest, ADeliveryIsRecordedWithTheComputeTimeOfEachOfItsMiniBatches) {
  CoordinatorOptions job = SmallJob(proto::ASYNC, 1, 1);
  job.job.mutable_sync()->set_local_steps(2);
  Driver run(job);
  run.Start();
  Delivery delivery;
  delivery.key = run.TaskOf(0)->key;
  delivery.shard_bases = {Version(0), Version(0)};
  delivery.samples = 8;
  delivery.compute_seconds = 3;
  Actions out;
  ASSERT_TRUE(run.coordinator().Ready(delivery, run.now(), &out).ok());
  const size_t at = PositionOf<RecordComputeTime>(out);
  ASSERT_LT(at, out.size());
  EXPECT_EQ(std::get<RecordComputeTime>(out[at]).worker, WorkerId(0));
  EXPECT_EQ(std::get<RecordComputeTime>(out[at]).seconds, 1.5);
  // A repeat is not another.
  out.clear();
  run.coordinator().Ready(delivery, run.now(), &out).IgnoreError();
  EXPECT_EQ(PositionOf<RecordComputeTime>(out), out.size());
}

// ---- Refused at the door ----

TEST(TaskTest, AMalformedReadySaysWhatWasExpectedAndWhatCame) {
  CoordinatorOptions job = SmallJob(proto::ASYNC, 1, 1);
  Driver run(job);
  run.Start();
  Delivery delivery;
  delivery.key = run.TaskOf(0)->key;
  delivery.samples = 4;
  Actions out;
  Coordinator& coordinator = run.coordinator();
  const auto message = [&] {
    const absl::Status status = coordinator.Ready(delivery, run.now(), &out);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  EXPECT_EQ(message(), "g1/w0/i1/s1: bases of 0 shards, expected 2");
  delivery.shard_bases = {Version(0), Version(1)};
  EXPECT_EQ(message(),
            "g1/w0/i1/s1: pulled version 1 from shard 1, expected 0 to 0");
  delivery.shard_bases = {Version(0), Version(0)};
  delivery.samples = 5;
  EXPECT_EQ(message(), "g1/w0/i1/s1: computed on 5 samples, expected 4");
  delivery.samples = 4;
  for (const double seconds : {-1.0, std::nan(""), 1e12}) {
    delivery.compute_seconds = seconds;
    EXPECT_EQ(message(), absl::StrCat("g1/w0/i1/s1: compute took ", seconds,
                                      " s, expected 0 to 6.5536e+10"));
  }
  delivery.compute_seconds = 0;
  delivery.push_seconds = -1;
  EXPECT_EQ(message(), "g1/w0/i1/s1: push took -1 s, expected 0 to 6.5536e+10");
  EXPECT_TRUE(out.empty());
}

// ---- Deadlines ----

TEST(TaskTest, ATaskThatTakesTooLongGoesToSomebodyElse) {
  CoordinatorOptions job = SmallJob(proto::SYNC, 3, 2);
  job.job.mutable_limits()->set_task_deadline_s(30);
  Driver run(job);
  run.Start();
  const Task slow = *run.TaskOf(0);
  run.Advance(absl::Seconds(20));
  EXPECT_TRUE(run.Deliver(1).ok());
  run.Advance(absl::Seconds(9));
  EXPECT_EQ(run.TaskOf(0)->key, slow.key);
  run.Advance(absl::Seconds(1));
  EXPECT_EQ(run.VerdictOf(slow.key)->outcome, Outcome::kCancelled);
  EXPECT_EQ(run.VerdictOf(slow.key)->reason,
            "worker 0 took longer than 30s for one task");
  EXPECT_EQ(run.BatchOf(1), 0);
}

// ---- Bad gradients ----

TEST(PoisonTest, AnotherWorkerComputesTheMiniBatchOnceMore) {
  Driver run(SmallJob(proto::K_BATCH_ASYNC, 2, 3));
  run.Start();
  const Task bad = *run.TaskOf(0);
  EXPECT_TRUE(run.Reject(0).ok());
  EXPECT_EQ(run.VerdictOf(bad.key)->outcome, Outcome::kRejected);
  EXPECT_EQ(run.VerdictOf(bad.key)->reason, "conv0.weight[3] is NaN");
  // Worker 0 goes on with something else although mini-batch 0 is the lowest.
  EXPECT_EQ(run.BatchOf(0), 2);
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.BatchOf(1), 0);
}

TEST(PoisonTest, WaitsForAnotherWorkerThatIsStillComputing) {
  CoordinatorOptions job = SmallJob(proto::SYNC, 2, 2);
  Driver run(job);
  run.Start();
  EXPECT_TRUE(run.Reject(0).ok());
  EXPECT_FALSE(run.TaskOf(0).has_value());
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.BatchOf(1), 0);
}

TEST(PoisonTest, AnotherGroupComputesTheMiniBatchOnceMore) {
  CoordinatorOptions job = SmallJob(proto::SYNC, 4, 2);
  Set(&job, "worker { group { slots: 2 } } cluster { max_workers: 4 }");
  Driver run(job);
  run.Start();
  EXPECT_TRUE(run.Reject(0).ok());
  // Workers 0 and 2 are slots of one group, 1 and 3 of the other.
  EXPECT_FALSE(run.TaskOf(2).has_value());
  EXPECT_EQ(run.BatchOf(3), 0);
}

TEST(PoisonTest, TheSameWorkerTriesAgainWhenThereIsNoOther) {
  Driver run(SmallJob(proto::SYNC, 1, 1));
  run.Start();
  EXPECT_TRUE(run.Reject(0).ok());
  EXPECT_EQ(run.BatchOf(0), 0);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.version(), 1);
}

TEST(PoisonTest, TheSecondTimeTheRunFailsAndNamesTheCulprit) {
  Driver run(SmallJob(proto::SYNC, 2, 2));
  run.Start();
  EXPECT_TRUE(run.Reject(0).ok());
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_FALSE(run.Finished().has_value());
  EXPECT_TRUE(run.Reject(1).ok());
  EXPECT_EQ(run.Finished()->failure,
            "diverged: version 0, worker 1, mini-batch 0: "
            "conv0.weight[3] is NaN");
  EXPECT_EQ(run.State().phase, Phase::kFailed);
}

TEST(PoisonTest, SkipLeavesTheMiniBatchOutAndCountsIt) {
  CoordinatorOptions job = SmallJob(proto::ASYNC, 2, 1);
  job.job.mutable_sync()->set_on_bad_gradient(proto::SKIP);
  Driver run(job);
  run.Start();
  EXPECT_TRUE(run.Reject(0).ok());
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.BatchOf(1), 0);
  EXPECT_TRUE(run.Reject(1).ok());
  EXPECT_EQ(run.State().counters.rejected, 2);
  while (!run.Finished().has_value()) {
    ASSERT_TRUE(run.Deliver(run.TaskOf(0).has_value() ? 0 : 1).ok());
  }
  EXPECT_EQ(run.CommittedBatches().size(), 9);  // Of ten.
  EXPECT_EQ(run.State().counters.samples_applied, 36);
  EXPECT_EQ(run.State().counters.batches_left_out, 1);
}

TEST(PoisonTest, ARejectionOfAnEndedTaskIsRefused) {
  Driver run(SmallJob(proto::K_SYNC, 2, 1));
  run.Start();
  const Task straggler = *run.TaskOf(1);
  EXPECT_TRUE(run.Deliver(0).ok());
  Actions out;
  EXPECT_TRUE(absl::IsAborted(
      run.coordinator().Rejected(straggler.key, "NaN", run.now(), &out)));
  EXPECT_EQ(run.State().counters.rejected, 0);
}

// ---- Room ----

TEST(RoomTest, NoTaskIsGivenWithoutRoomOnEveryShard) {
  CoordinatorOptions job = SmallJob(proto::K_SYNC, 3, 2);
  job.job.mutable_limits()->set_staged_gradients(2);
  Driver run(job);
  run.Start();
  EXPECT_TRUE(run.TaskOf(1).has_value());
  EXPECT_FALSE(run.TaskOf(2).has_value());
  run.HoldShard(1);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.version(), 1);
  // Shard 1 still holds both.
  for (int w = 0; w < 3; ++w) EXPECT_FALSE(run.TaskOf(w).has_value());
  run.ReleaseShard(1);
  EXPECT_TRUE(run.TaskOf(0).has_value());
  EXPECT_TRUE(run.TaskOf(1).has_value());
}

TEST(RoomTest, TheRoomOfACancelledTaskComesBackWithItsDiscard) {
  CoordinatorOptions job = SmallJob(proto::K_SYNC, 2, 1);
  job.job.mutable_limits()->set_staged_gradients(2);
  Driver run(job);
  run.Start();
  for (int update = 0; update < 10; ++update) {
    EXPECT_TRUE(run.Deliver(run.TaskOf(0).has_value() ? 0 : 1).ok());
  }
  EXPECT_TRUE(run.Finished().has_value());
}

// ---- Who is waited for ----

TEST(WaitingTest, WhoeverComputesForLongWhileOthersHaveNothingToDoIsNamed) {
  Driver run(SmallJob(proto::SYNC, 3, 3));
  run.Start();
  run.Advance(absl::Seconds(2));
  EXPECT_EQ(run.State().waiting_for, "");  // All compute.
  EXPECT_TRUE(run.Deliver(1).ok());
  const JobState state = run.State();
  EXPECT_EQ(state.waiting_for, "worker 0, worker 2 to compute");
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.State().waiting_for, "worker 2 to compute");
  EXPECT_EQ(run.State().waiting_since, state.waiting_since);
  EXPECT_TRUE(run.Deliver(2).ok());
  EXPECT_EQ(run.State().waiting_for, "");
  // The next round is under way; that is nothing a person need know of.
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.State().waiting_for, "");
}

// ---- The commit window ----

TEST(CommitWindowTest, CommitsWaitForTheSlowestShardAndGradientsAreKept) {
  CoordinatorOptions job = SmallJob(proto::ASYNC, 2, 1);
  job.job.mutable_limits()->set_commit_window(2);
  job.job.mutable_limits()->set_staged_gradients(10);
  Driver run(job);
  run.Start();
  run.HoldShard(1);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.version(), 2);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.version(), 2);
  EXPECT_EQ(run.State().waiting_for, "shard 1 to apply version 1");
  // It has not been judged: what started now would not see its own update.
  EXPECT_FALSE(run.TaskOf(0).has_value());
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.version(), 2);
  run.ReleaseShard(1);
  EXPECT_EQ(run.version(), 4);
  EXPECT_EQ(run.TaskOf(0)->version, Version(4));
}

TEST(CommitWindowTest, WhatWaitedTooLongForTheWindowIsDropped) {
  CoordinatorOptions job = SmallJob(proto::ASYNC, 3, 1);
  job.job.mutable_limits()->set_commit_window(1);
  *job.job.mutable_sync()->mutable_staleness() =
      StalenessBound(1, proto::Staleness::DROP);
  Driver run(job);
  run.Start();
  const Task last = *run.TaskOf(2);
  run.HoldShard(0);
  EXPECT_TRUE(run.Deliver(0).ok());  // Makes version 1.
  EXPECT_TRUE(run.Deliver(1).ok());  // Will make version 2.
  EXPECT_TRUE(run.Deliver(2).ok());  // Would be 2 versions stale then.
  run.ReleaseShard(0);
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0}, {1}}));
  EXPECT_EQ(run.VerdictOf(last.key)->outcome, Outcome::kDropped);
}

TEST(CommitWindowTest, AShardThatExecutesNothingFailsTheRun) {
  CoordinatorOptions job = SmallJob(proto::ASYNC, 1, 1);
  job.job.mutable_limits()->set_task_deadline_s(30);
  Driver run(job);
  run.Start();
  run.HoldShard(1);
  EXPECT_TRUE(run.Deliver(0).ok());
  run.Advance(absl::Seconds(31));
  EXPECT_EQ(run.Finished()->failure,
            "shard 1 has not executed decision 2 within 30s");
}

}  // namespace
}  // namespace sluice
