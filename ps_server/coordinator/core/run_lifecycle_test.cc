// A run from its start on: who is waited for, who may die, what is shown.

#include <vector>

#include "gtest/gtest.h"
#include "ps_server/coordinator/testing/driver.h"
#include "ps_server/coordinator/testing/jobs.h"

namespace sluice {
namespace {

const Peer kWorker0{Role::kWorker, 0};
const Peer kWorker1{Role::kWorker, 1};
const Peer kShard0{Role::kShard, 0};
const Peer kShard1{Role::kShard, 1};
const Peer kEvaluator{Role::kEvaluator, 0};

CoordinatorOptions Job() { return SmallJob(proto::ASYNC, 2, 1); }

CoordinatorOptions WithEvaluator() {
  CoordinatorOptions job = Job();
  job.job.mutable_evaluation()->set_enabled(true);
  return job;
}

// ---- Start ----

TEST(StartTest, TheRunBeginsWhenAllHaveJoinedAndTheShardsHaveTheirWeights) {
  Driver run(WithEvaluator());
  run.HoldShard(1);
  run.JoinWorker(0);
  EXPECT_TRUE(run.Join(kShard0).ok());
  EXPECT_TRUE(run.Join(kShard1).ok());
  ASSERT_EQ(run.All<SendDecision>().size(), 1);
  EXPECT_EQ(run.All<SendDecision>()[0].decision.number, 1);
  EXPECT_EQ(run.Decisions<Restore>()[0].version, Version(0));
  EXPECT_EQ(run.State().waiting_for, "worker 1, evaluator");
  EXPECT_TRUE(run.Join(kEvaluator).ok());
  run.JoinWorker(1);
  EXPECT_EQ(run.State().phase, Phase::kStarting);
  EXPECT_EQ(run.State().waiting_for, "shard 1 to load version 0");
  run.ReleaseShard(1);
  EXPECT_EQ(run.State().phase, Phase::kRunning);
  EXPECT_TRUE(run.TaskOf(0).has_value());
}

TEST(StartTest, TheTimeoutNamesTheMissing) {
  CoordinatorOptions job = WithEvaluator();
  job.job.mutable_limits()->set_start_timeout_s(30);
  Driver run(job);
  EXPECT_TRUE(run.Join(kShard0).ok());
  run.JoinWorker(1);
  run.Advance(absl::Seconds(29));
  EXPECT_FALSE(run.Finished().has_value());
  run.Advance(absl::Seconds(1));
  EXPECT_EQ(run.Finished()->failure,
            "waited 30s for shard 1, worker 0, evaluator");
}

TEST(StartTest, AShardMayRestartBeforeTheRunHasBegun) {
  Driver run(Job());
  EXPECT_TRUE(run.Join(kShard0).ok());
  run.Disconnect(kShard0);
  EXPECT_EQ(run.Join(kShard0)->incarnation, Incarnation(2));
  EXPECT_TRUE(run.Join(kShard1).ok());
  run.JoinWorker(0);
  run.JoinWorker(1);
  EXPECT_EQ(run.State().phase, Phase::kRunning);
}

// ---- Whom any number will do for ----

TEST(WithoutNumberTest,
     WorkersThatAskAtOnceGetDifferentNumbersAndTheRunBegins) {
  Driver run(Job());
  EXPECT_TRUE(run.Join(kShard0).ok());
  EXPECT_TRUE(run.Join(kShard1).ok());
  EXPECT_EQ(run.JoinAny()->peer, kWorker0);
  EXPECT_EQ(run.JoinAny()->peer, kWorker1);
  EXPECT_EQ(run.State().phase, Phase::kRunning);
  EXPECT_TRUE(run.TaskOf(0).has_value());
  EXPECT_TRUE(run.TaskOf(1).has_value());
}

TEST(WithoutNumberTest, OneAboveTheJobsWorkersIsExtra) {
  CoordinatorOptions job = Job();
  job.job.mutable_cluster()->set_max_workers(3);
  Driver run(job);
  run.Start();
  EXPECT_EQ(run.JoinAny()->peer, (Peer{Role::kWorker, 2}));
  std::vector<bool> extra;
  for (const WorkerState& worker : run.State().workers) {
    extra.push_back(worker.extra);
  }
  EXPECT_EQ(extra, (std::vector<bool>{false, false, true}));
}

TEST(WithoutNumberTest, WhoIsStartedAgainGetsTheNumberOfTheOneThatDied) {
  CoordinatorOptions job = Job();
  job.job.mutable_cluster()->clear_max_workers();
  Driver run(job);
  run.Start();
  run.Disconnect(kWorker0);
  EXPECT_EQ(run.JoinAny().status().code(), absl::StatusCode::kUnavailable)
      << "it may resume its session";
  run.Silence(kWorker0);
  run.Advance(absl::Seconds(5));
  const auto again = run.JoinAny();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->peer, kWorker0);
  EXPECT_EQ(again->incarnation, Incarnation(2));
  run.Advance(absl::Seconds(1));
  EXPECT_EQ(run.JoinAny().status().code(), absl::StatusCode::kUnavailable);
  run.Advance(absl::Seconds(1));
  EXPECT_EQ(run.JoinAny().status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(WithoutNumberTest, IsRefusedWhereTheDataArePartitionedByNumber) {
  CoordinatorOptions job = Job();
  job.job.mutable_data()->set_sharding(proto::Data::STATIC);
  Driver run(job);
  const auto refused = run.JoinAny().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused.message().substr(0, 14), "data.sharding:");
  EXPECT_EQ(run.State().workers[0].life, PeerLife::kMissing);
}

// ---- Who has computed with other inputs ----

TEST(InputsTest, UnderSyncEveryWorkerMustHaveTheSameDevice) {
  Driver run(SmallJob(proto::SYNC, 2, 1));
  EXPECT_TRUE(run.Join(kWorker0, 0, {{"device", "cpu"}}).ok());
  const auto other = run.Join(kWorker1, 0, {{"device", "gpu"}});
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(other.status().message(),
            "worker 1: device is \"gpu\" here, \"cpu\" at worker 0");
  EXPECT_TRUE(run.Join(kWorker1, 0, {{"device", "cpu"}}).ok());
}

TEST(InputsTest, UnderOtherPoliciesDevicesMayBeMixedAndThatIsSaid) {
  Driver run(SmallJob(proto::K_SYNC, 2, 1));
  EXPECT_TRUE(run.Join(kWorker0, 0, {{"device", "cpu"}}).ok());
  run.Forget();
  EXPECT_TRUE(run.Join(kWorker1, 0, {{"device", "gpu"}}).ok());
  const auto said = run.All<Announce>();
  ASSERT_GE(said.size(), 1);
  EXPECT_EQ(said.back().level, Announce::Level::kWarning);
  EXPECT_EQ(said.back().text,
            R"(event=inputs_differ what="worker 1: device is \"gpu\" here, )"
            R"(\"cpu\" at worker 0")");
}

TEST(InputsTest, AWorkerWithOtherDataIsRefusedUnderEveryPolicy) {
  for (const proto::Policy policy : {proto::SYNC, proto::ASYNC}) {
    Driver run(SmallJob(policy, 2, 1));
    EXPECT_TRUE(run.Join(kWorker0, 0, {{"training data", "a"}}).ok());
    EXPECT_EQ(run.Join(kWorker1, 0, {{"training data", "b"}}).status().code(),
              absl::StatusCode::kFailedPrecondition);
    // The one that came first had the wrong data: it is put right.
    run.Leave(kWorker0);
    EXPECT_TRUE(run.Join(kWorker1, 0, {{"training data", "b"}}).ok());
  }
}

TEST(InputsTest, OnceTheRunHasBegunNothingMayChange) {
  Driver run(Job());
  EXPECT_TRUE(run.Join(kShard0).ok());
  EXPECT_TRUE(run.Join(kShard1).ok());
  run.JoinWorker(1);
  EXPECT_TRUE(run.Join(kWorker0, 0, {{"training data", "a"}}).ok());
  ASSERT_EQ(run.State().phase, Phase::kRunning);
  run.Leave(kWorker0);
  EXPECT_EQ(run.Join(kWorker0, 0, {{"training data", "b"}}).status().message(),
            "worker 0: training data is \"b\" here, \"a\" before at worker 0");
  EXPECT_TRUE(run.Join(kWorker0, 0, {{"training data", "a"}}).ok());
}

// ---- Who is lost ----

TEST(LossTest, AWorkerWhoseLeaseExpiresIsDeadAndItsTaskGoesOn) {
  CoordinatorOptions job = SmallJob(proto::SYNC, 2, 1);
  job.job.mutable_limits()->set_lease_s(5);
  Driver run(job);
  run.Start();
  EXPECT_EQ(run.BatchOf(0), 0);
  run.Silence(kWorker0);
  run.Advance(absl::Seconds(4.9));
  EXPECT_FALSE(run.TaskOf(1).has_value());
  run.Advance(absl::Seconds(0.1));
  EXPECT_EQ(run.BatchOf(1), 0);
  EXPECT_EQ(run.State().workers[0].life, PeerLife::kCutOff);
  ASSERT_EQ(run.All<EndSession>().size(), 1);
  EXPECT_EQ(run.All<EndSession>()[0].reason,
            "worker 0 died: not heard of for 5s");
}

TEST(LossTest, AReportedDeathEndsALifeAtOnce) {
  Driver run(SmallJob(proto::SYNC, 2, 1));
  run.Start();
  EXPECT_EQ(run.BatchOf(0), 0);
  EXPECT_TRUE(run.ReportDeath(kWorker0, "another").ok());
  EXPECT_FALSE(run.TaskOf(1).has_value()) << "it was not this process";
  EXPECT_TRUE(run.ReportDeath(kWorker0, "worker 0").ok());
  EXPECT_EQ(run.BatchOf(1), 0);
  EXPECT_EQ(run.State().workers[0].life, PeerLife::kDead);
  ASSERT_EQ(run.All<EndSession>().size(), 1);
  EXPECT_EQ(run.All<EndSession>()[0].reason, "worker 0 died: killed");
  EXPECT_EQ(run.State().workers[0].last_loss, "died: killed");
  run.Forget();
  EXPECT_TRUE(run.ReportDeath(kWorker0, "worker 0").ok()) << "a repeat";
  EXPECT_TRUE(run.All<EndSession>().empty());
  EXPECT_TRUE(
      absl::IsInvalidArgument(run.ReportDeath({Role::kShard, 7}, "shard 7")));
  EXPECT_TRUE(run.Join(kWorker0).ok());
  EXPECT_EQ(run.State().workers[0].last_loss, "died: killed") << "before";
}

TEST(LossTest, AReportedDeathEndsAllSlotsOfTheProcess) {
  Driver run(SmallJob(proto::ASYNC, 3, 1));
  for (const auto& [worker, process] :
       {std::pair(0, "host:1"), std::pair(1, "host:2"),
        std::pair(2, "host:1")}) {
    Coordinator::JoinRequest request;
    request.peer = {Role::kWorker, worker};
    request.process = process;
    Actions out;
    ASSERT_TRUE(run.coordinator().Join(request, run.now(), &out).ok());
  }
  EXPECT_TRUE(run.ReportDeath(kWorker0, "host:1").ok());
  const JobState state = run.State();
  EXPECT_EQ(state.workers[0].life, PeerLife::kDead);
  EXPECT_EQ(state.workers[1].life, PeerLife::kAlive);
  EXPECT_EQ(state.workers[2].life, PeerLife::kDead);
}

TEST(LossTest, APauseOfTheCoordinatorKillsNobody) {
  Driver run(Job());
  run.Start();
  run.Pause(absl::Hours(1));
  EXPECT_TRUE(run.All<EndSession>().empty());
  EXPECT_FALSE(run.Finished().has_value());
  // After it, leases run again.
  run.Silence(kWorker0);
  run.Advance(absl::Seconds(6));
  EXPECT_EQ(run.State().workers[0].life, PeerLife::kCutOff);
  EXPECT_EQ(run.State().workers[1].life, PeerLife::kAlive);
}

// Where nothing can recover; else recovery_test.
TEST(LossTest, AShardsDeathFailsTheRunAndNamesIt) {
  Driver run(Job());
  run.Start();
  run.Silence(kShard1);
  run.Advance(absl::Seconds(6));
  EXPECT_EQ(run.Finished()->failure, "shard 1 died: not heard of for 5s");
}

TEST(LossTest, ARestartedShardFailsTheRunAndIsNamed) {
  Driver run(Job());
  run.Start();
  run.Disconnect(kShard1);
  EXPECT_FALSE(run.Finished().has_value());
  EXPECT_TRUE(run.Join(kShard1).ok());
  EXPECT_EQ(run.Finished()->failure, "shard 1 restarted");
}

TEST(LossTest, AShardMayResumeItsSession) {
  Driver run(Job());
  run.Start();
  run.Disconnect(kShard1);
  EXPECT_TRUE(run.Join(kShard1, /*resume=*/1)->resumed);
  run.Advance(absl::Seconds(10));
  EXPECT_FALSE(run.Finished().has_value());
}

TEST(LossTest, ADecisionThatCannotBeExecutedFailsTheRun) {
  Driver run(Job());
  run.Start();
  Actions out;
  EXPECT_TRUE(run.coordinator()
                  .Executed(ShardId(1), 1, Version(0),
                            "commit of version 1: g1/w0/i1/s1 is not staged",
                            run.now(), &out)
                  .ok());
  EXPECT_EQ(std::get<FinishRun>(out.back()).failure,
            "shard 1: commit of version 1: g1/w0/i1/s1 is not staged");
}

// ---- The learning rate ----

TEST(LearningRateTest, FollowsSamplesAppliedAndGradientsInTheUpdate) {
  CoordinatorOptions job = SmallJob(proto::SYNC, 2, 2);
  // 8 samples of 40.
  Set(&job,
      "optimizer { learning_rate: 1 } schedule { linear_scaling: true "
      "step { every_epochs: 0.2 factor: 0.5 } }");
  Driver run(job);
  run.Start();
  for (int update = 0; update < 3; ++update) {
    EXPECT_TRUE(run.Deliver(0).ok());
    EXPECT_TRUE(run.Deliver(1).ok());
  }
  const auto commits = run.Decisions<Commit>();
  EXPECT_EQ(commits[0].learning_rate, 2);    // 2 gradients, 0 samples.
  EXPECT_EQ(commits[1].learning_rate, 1);    // 8 samples.
  EXPECT_EQ(commits[2].learning_rate, 0.5);  // 16 samples.
  EXPECT_EQ(run.State().learning_rate, 0.5);
}

TEST(StateTest, ShowsHowFarTheRunIs) {
  Driver run(Job());
  run.Start();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(run.Deliver(0).ok());
  const JobState state = run.State();
  EXPECT_EQ(state.epoch, 0.5);
  EXPECT_EQ(state.progress, 0.5);
  EXPECT_EQ(state.counters.samples_applied, 20);
  EXPECT_EQ(state.loss, 1);
  EXPECT_EQ(state.counters.applied, 5);
  EXPECT_EQ(state.workers[0].gradients.applied, 5);
  EXPECT_TRUE(state.workers[1].computing);
  EXPECT_EQ(state.shards[1].version, Version(5));
}

}  // namespace
}  // namespace sluice
