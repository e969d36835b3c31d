// Who takes part in the generation after a recovery, and what becomes of a stop
// that is asked for meanwhile.
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/testing/driver.h"
#include "ps_server/coordinator/testing/jobs.h"
#include "ps_server/coordinator/versions/check_resume_point.h"

namespace sluice {
namespace {

using ::testing::SizeIs;

constexpr Peer kShard0{Role::kShard, 0};
constexpr Peer kShard1{Role::kShard, 1};
constexpr Peer kWorker0{Role::kWorker, 0};
constexpr Peer kEvaluator{Role::kEvaluator, 0};

CoordinatorOptions Job() {
  CoordinatorOptions job = SmallJob(proto::ASYNC, 2, 1);
  job.recovery.possible = true;
  return job;
}

EndGeneration EndOf(const Driver& run) {
  const auto ends = run.All<EndGeneration>();
  EXPECT_THAT(ends, SizeIs(1));
  return ends.empty() ? EndGeneration() : ends[0];
}

// The second generation of a job of three workers with an evaluator, from
// version 2 on; its shards have their weights.
CoordinatorOptions Later() {
  CoordinatorOptions job = SmallJob(proto::ASYNC, 3, 1);
  job.recovery.possible = true;
  job.job.mutable_evaluation()->set_enabled(true);
  job.generation = Generation(2);
  job.resume = ResumePoint{Generation(1), Version(2), {}};
  job.resume->snapshot.schedule.low_water_mark = BlockId(2);
  return job;
}

void JoinShards(Driver& run) {
  EXPECT_TRUE(run.Join(kShard0).ok());
  EXPECT_TRUE(run.Join(kShard1).ok());
}

TEST(RegroupTest, TrainingGoesOnAsSoonAsThoseAreThereWhoTookPart) {
  CoordinatorOptions job = Later();
  job.recovery.workers = {WorkerId(0), WorkerId(2)};  // 1 had left for good.
  Driver run(job);
  JoinShards(run);
  run.JoinWorker(2);
  EXPECT_TRUE(run.Join(kEvaluator).ok());
  EXPECT_EQ(run.State().waiting_for, "worker 0");
  run.JoinWorker(0);
  EXPECT_EQ(run.State().phase, Phase::kRunning);
}

// Found by seed 215 of faults_test under ASYNC: it waited for nobody by name.
TEST(RegroupTest, WhereNobodyWasLeftTheJobsWorkersAreWaitedForByName) {
  CoordinatorOptions job = Later();
  job.job.mutable_evaluation()->set_enabled(false);
  job.recovery.workers.emplace();  // Each had left or died.
  Driver run(job);
  JoinShards(run);
  EXPECT_EQ(run.State().waiting_for, "worker 0, worker 1, worker 2");
  run.JoinWorker(1);
  run.Advance(absl::Seconds(10));
  EXPECT_EQ(run.State().phase, Phase::kRunning);
}

TEST(RegroupTest, WhoDoesNotComeBackIsWaitedForNoLongerThanTheTimeout) {
  CoordinatorOptions job = Later();
  job.recovery.workers = {WorkerId(0), WorkerId(1), WorkerId(2)};
  Driver run(job);
  run.JoinWorker(0);
  run.Advance(absl::Seconds(60));
  JoinShards(run);  // The wait begins when the shards have their weights.
  run.Advance(absl::Seconds(9));
  EXPECT_EQ(run.State().phase, Phase::kStarting);
  EXPECT_EQ(run.State().waiting_for, "worker 1, worker 2, evaluator");
  run.Advance(absl::Seconds(1));
  EXPECT_EQ(run.State().phase, Phase::kRunning);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.version(), 3);
  // Who comes later takes part.
  run.JoinWorker(1);
  EXPECT_TRUE(run.TaskOf(1).has_value());
}

TEST(RegroupTest, ShardsThatComeLateTakeNothingFromTheTimeout) {
  CoordinatorOptions job = Later();
  job.job.mutable_limits()->set_start_timeout_s(30);
  job.recovery.workers = {WorkerId(0), WorkerId(1)};
  Driver run(job);
  run.JoinWorker(0);
  EXPECT_TRUE(run.Join(kEvaluator).ok());
  run.Advance(absl::Seconds(25));
  JoinShards(run);
  run.Advance(absl::Seconds(9));
  EXPECT_EQ(run.State().phase, Phase::kStarting);
  run.Advance(absl::Seconds(1));
  EXPECT_EQ(run.State().phase, Phase::kRunning);
}

TEST(RegroupTest, TheTimeoutMayBeLongerThanThatOfTheStart) {
  CoordinatorOptions job = Later();
  job.job.mutable_limits()->set_start_timeout_s(30);
  job.job.mutable_limits()->set_regroup_timeout_s(60);
  job.recovery.workers = {WorkerId(0), WorkerId(1)};
  Driver run(job);
  run.JoinWorker(0);
  EXPECT_TRUE(run.Join(kEvaluator).ok());
  JoinShards(run);
  run.Advance(absl::Seconds(59));
  EXPECT_EQ(run.State().phase, Phase::kStarting);
  run.Advance(absl::Seconds(1));
  EXPECT_EQ(run.State().phase, Phase::kRunning);
}

TEST(RegroupTest, ShardsThatDoNotComeAreWaitedForAsAtTheStart) {
  CoordinatorOptions job = Later();
  job.job.mutable_limits()->set_start_timeout_s(30);
  job.job.mutable_limits()->set_regroup_timeout_s(60);
  job.recovery.workers = {WorkerId(0)};
  Driver run(job);
  run.JoinWorker(0);
  EXPECT_TRUE(run.Join(kEvaluator).ok());
  EXPECT_TRUE(run.Join(kShard0).ok());
  run.Advance(absl::Seconds(30));
  EXPECT_EQ(run.Finished()->failure, "waited 30s for shard 1");
}

TEST(RegroupTest, OneWorkerIsWaitedForAsAtTheStart) {
  CoordinatorOptions job = Later();
  job.job.mutable_limits()->set_start_timeout_s(30);
  Driver run(job);
  JoinShards(run);
  EXPECT_TRUE(run.Join(kEvaluator).ok());
  run.Advance(absl::Seconds(29));
  EXPECT_FALSE(run.Finished().has_value());
  run.Advance(absl::Seconds(1));
  EXPECT_EQ(run.Finished()->failure,
            "waited 30s for worker 0, worker 1, worker 2");
}

TEST(RegroupTest, AnEvaluatorThatWasGoneIsNotWaitedFor) {
  CoordinatorOptions job = Later();
  job.recovery.workers = {WorkerId(0)};
  job.recovery.evaluator = false;
  Driver run(job);
  JoinShards(run);
  run.JoinWorker(0);
  EXPECT_EQ(run.State().phase, Phase::kRunning);
}

TEST(RegroupTest, TooFewForTheUpdateAreAShortageLikeAnyOther) {
  CoordinatorOptions job = Later();
  job.job.mutable_sync()->set_policy(proto::K_SYNC);
  job.job.mutable_sync()->set_k(3);
  job.job.mutable_sync()->set_shortage_timeout_s(40);
  Driver run(job);
  JoinShards(run);
  run.JoinWorker(0);
  run.JoinWorker(1);
  run.Advance(absl::Seconds(10));
  EXPECT_EQ(run.State().phase, Phase::kRunning);
  EXPECT_EQ(run.State().waiting_for,
            "an update needs 3 gradients and 2 workers live; missing: worker "
            "2");
  run.Advance(absl::Seconds(40));
  EXPECT_EQ(run.Finished()->failure,
            "waited 40s for workers: an update needs 3 gradients and 2 workers "
            "live; missing: worker 2");
}

TEST(RegroupTest, AGenerationSaysWhoTookPartInIt) {
  CoordinatorOptions job = SmallJob(proto::ASYNC, 3, 1);
  job.recovery.possible = true;
  job.job.mutable_evaluation()->set_enabled(true);
  Driver run(job);
  run.Start();
  run.JoinWorker(4);
  run.Leave(kWorker0);
  run.Leave(kEvaluator);
  run.Disconnect(kShard1);
  EXPECT_TRUE(run.Join(kShard1).ok());
  const EndGeneration end = EndOf(run);
  EXPECT_EQ(end.workers,
            (std::set<WorkerId>{WorkerId(1), WorkerId(2), WorkerId(4)}));
  EXPECT_FALSE(end.evaluator);
  EXPECT_TRUE(end.begun);
}

TEST(RegroupTest, OneThatEndsBeforeItBeginsHandsOnWhatItWasTold) {
  CoordinatorOptions job = Later();
  job.recovery.workers = {WorkerId(0), WorkerId(2)};
  Driver run(job);
  run.HoldShard(1);
  JoinShards(run);
  run.JoinWorker(2);
  run.Disconnect(kShard1);
  EXPECT_TRUE(run.Join(kShard1).ok());
  EXPECT_EQ(EndOf(run).workers, job.recovery.workers);
  EXPECT_TRUE(EndOf(run).begun);
}

TEST(RegroupTest, ARunThatHasNeverBegunWaitsForAllAsAtTheStart) {
  CoordinatorOptions job = Job();
  Driver first(job);
  first.HoldShard(1);
  JoinShards(first);
  first.JoinWorker(0);
  first.Disconnect(kShard1);
  EXPECT_TRUE(first.Join(kShard1).ok());
  EXPECT_FALSE(EndOf(first).begun);

  job.generation = Generation(2);
  job.resume = ResumePoint();
  job.recovery.begun = false;
  Driver run(job);
  JoinShards(run);
  run.JoinWorker(0);
  run.Advance(absl::Seconds(60));
  EXPECT_EQ(run.State().phase, Phase::kStarting);
  run.JoinWorker(1);
  EXPECT_EQ(run.State().phase, Phase::kRunning);
}

TEST(RegroupTest, AGenerationThatBeginsAtTheRunsEndNeedsNoWorker) {
  CoordinatorOptions job = Later();
  job.job.mutable_checkpoint()->set_every_updates(100);
  job.resume = ResumePoint{Generation(1), Version(10), {}};
  job.resume->snapshot.schedule.low_water_mark = BlockId(10);
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckResumePoint(job)));
  EXPECT_EQ(CheckRecoveryPoint(job), absl::OkStatus());
  Driver run(job);
  EXPECT_TRUE(run.Join(kEvaluator).ok());
  JoinShards(run);
  EXPECT_THAT(run.All<SendEvaluate>(), SizeIs(1));
  run.Evaluated(10);
  ASSERT_TRUE(run.Finished().has_value());
  EXPECT_EQ(run.Finished()->failure, "");
  EXPECT_TRUE(run.All<SendTask>().empty());
  EXPECT_TRUE(run.Decisions<Store>().empty()) << "it is stored";
}

// ---- A stop that is asked for meanwhile ----

TEST(StopInRecoveryTest, OneOfAGenerationThatIsOverIsKeptForTheNext) {
  Driver run(Job());
  run.Start();
  run.Disconnect(kShard1);
  EXPECT_TRUE(run.Join(kShard1).ok());
  EXPECT_FALSE(run.State().stop_requested.has_value());
  run.RequestStop();
  EXPECT_EQ(run.State().stop_requested, "asked to");
}

TEST(StopInRecoveryTest, OneWhoseCarryingOutWasCutShortIsKeptToo) {
  CoordinatorOptions job = Job();
  job.job.mutable_evaluation()->set_enabled(true);
  Driver run(job);
  run.Start();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(run.Deliver(0).ok());
  run.RequestStop();
  ASSERT_EQ(run.State().phase, Phase::kFinishing);
  run.Disconnect(kShard1);
  EXPECT_TRUE(run.Join(kShard1).ok());
  EXPECT_EQ(EndOf(run).furthest, Version(3));
  EXPECT_EQ(run.State().stop_requested, "asked to");
}

TEST(StopInRecoveryTest, TheNextGenerationEvaluatesAndEndsWithoutAWorker) {
  for (const bool kept : {true, false}) {
    CoordinatorOptions job = Later();
    if (kept) job.recovery.stop = "asked to";
    Driver run(job);
    EXPECT_TRUE(run.Join(kEvaluator).ok());
    if (!kept) run.RequestStop();
    EXPECT_FALSE(run.Finished().has_value());
    JoinShards(run);
    ASSERT_THAT(run.All<SendEvaluate>(), SizeIs(1));
    EXPECT_TRUE(run.All<SendEvaluate>()[0].final);
    EXPECT_TRUE(run.All<SendTask>().empty());
    run.Evaluated(2);
    ASSERT_TRUE(run.Finished().has_value());
    EXPECT_EQ(run.Finished()->reason, "asked to");
    EXPECT_EQ(run.State().final_evaluation->version, Version(2));
  }
}

TEST(StopInRecoveryTest, ItIsSaidForWhomTheEndWaits) {
  Driver run(Later());
  EXPECT_TRUE(run.Join(kShard0).ok());
  const size_t before = run.All<Announce>().size();
  run.RequestStop();
  run.RequestStop();
  ASSERT_THAT(run.All<Announce>(), SizeIs(before + 1));
  EXPECT_EQ(run.All<Announce>().back().text,
            "event=stopping reason=\"asked to\" waiting_for=\"shard 1\"");
  EXPECT_EQ(run.State().waiting_for, "shard 1") << "and for nobody to compute";
}

TEST(StopInRecoveryTest, WhereTrainingHasNeverBegunThereIsNothingToEvaluate) {
  CoordinatorOptions job = Later();
  job.resume = ResumePoint();
  job.recovery.begun = false;
  job.recovery.stop = "asked to";
  Driver run(job);
  EXPECT_TRUE(run.Join(kShard0).ok());
  EXPECT_EQ(run.Finished()->reason, "asked to");
}

}  // namespace
}  // namespace sluice
