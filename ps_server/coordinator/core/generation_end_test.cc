// A shard that is lost ends its generation, and the next one goes on.
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/testing/driver.h"
#include "ps_server/coordinator/testing/jobs.h"
#include "ps_server/coordinator/versions/check_resume_point.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr Peer kShard0{Role::kShard, 0};
constexpr Peer kShard1{Role::kShard, 1};
constexpr Peer kWorker0{Role::kWorker, 0};

// Ten updates of one gradient each; two workers, two shards.
CoordinatorOptions Job() {
  CoordinatorOptions job = SmallJob(proto::ASYNC, 2, 1);
  job.recovery.possible = true;
  return job;
}

// Three updates, and one task more for each worker, of which worker 1's
// gradient is not ready.
void MakeThreeUpdates(Driver& run) {
  run.Start();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(run.Deliver(0).ok());
}

EndGeneration EndOf(const Driver& run) {
  const auto ends = run.All<EndGeneration>();
  EXPECT_THAT(ends, SizeIs(1));
  EXPECT_FALSE(run.Finished().has_value());
  return ends.empty() ? EndGeneration() : ends[0];
}

TEST(GenerationEndTest, TheDeathOfAShardEndsTheGenerationAndIsNamed) {
  Driver run(Job());
  MakeThreeUpdates(run);
  run.Silence(kShard1);
  run.Advance(absl::Seconds(6));
  const EndGeneration end = EndOf(run);
  EXPECT_EQ(end.reason, "shard 1 died: not heard of for 5s");
  EXPECT_EQ(end.furthest, Version(3));
  EXPECT_EQ(end.fruitless, 0);
  EXPECT_EQ(run.State().phase, Phase::kRecovering);
  EXPECT_EQ(run.State().message, end.reason);
}

TEST(GenerationEndTest, ANewLifeOfAShardEndsItAtOnce) {
  Driver run(Job());
  MakeThreeUpdates(run);
  run.Disconnect(kShard1);
  EXPECT_TRUE(run.All<EndGeneration>().empty()) << "only suspect";
  EXPECT_TRUE(run.Join(kShard1).ok());
  EXPECT_EQ(EndOf(run).reason, "shard 1 restarted");
}

TEST(GenerationEndTest, OpenTasksAreLostWithTheirGeneration) {
  Driver run(Job());
  MakeThreeUpdates(run);
  run.Forget();
  run.Disconnect(kShard1);
  EXPECT_TRUE(run.Join(kShard1).ok());
  const auto ends = run.All<RecordEnd>();
  ASSERT_THAT(ends, SizeIs(2));
  for (const RecordEnd& end : ends) {
    EXPECT_EQ(end.outcome, Outcome::kLost);
    EXPECT_EQ(end.reason, "its generation is over: shard 1 restarted");
  }
  EXPECT_EQ(run.State().counters.lost, 2);
}

TEST(GenerationEndTest, NothingIsDecidedAfterwards) {
  Driver run(Job());
  MakeThreeUpdates(run);
  const Task task = *run.TaskOf(1);
  run.Disconnect(kShard1);
  EXPECT_TRUE(run.Join(kShard1).ok());
  run.Forget();
  EXPECT_FALSE(run.Deliver(task, 0).ok());
  run.RequestStop();
  run.Advance(absl::Hours(1));
  EXPECT_EQ(run.Join(kWorker0).status().ToString(),
            "UNAVAILABLE: generation 1 is over, the next one follows: shard 1 "
            "restarted");
  EXPECT_TRUE(run.out().empty());
}

TEST(GenerationEndTest, AShardThatHasNoWeightsYetTakesNoneAlong) {
  Driver run(Job());
  EXPECT_TRUE(run.Join(kShard1).ok());
  run.Disconnect(kShard1);
  EXPECT_TRUE(run.Join(kShard1).ok());
  EXPECT_TRUE(run.Join(kShard0).ok());
  run.JoinWorker(0);
  run.JoinWorker(1);
  EXPECT_TRUE(run.All<EndGeneration>().empty());
  EXPECT_EQ(run.State().phase, Phase::kRunning);
}

TEST(GenerationEndTest, AShardIsLostWhileItLoadsItsWeights) {
  Driver run(Job());
  run.HoldShard(1);
  EXPECT_TRUE(run.Join(kShard0).ok());
  EXPECT_TRUE(run.Join(kShard1).ok());
  ASSERT_EQ(run.State().phase, Phase::kStarting);
  run.Disconnect(kShard1);
  EXPECT_TRUE(run.Join(kShard1).ok());
  EXPECT_EQ(EndOf(run).reason, "shard 1 restarted");
}

TEST(GenerationEndTest, ADecisionThatCannotBeExecutedEndsTheGeneration) {
  Driver run(Job());
  MakeThreeUpdates(run);
  Actions out;
  EXPECT_TRUE(run.coordinator()
                  .Executed(ShardId(1), 1, Version(0),
                            "version 4: gradient g1/w0/i1/s1 is not staged",
                            run.now(), &out)
                  .ok());
  EXPECT_EQ(std::get<EndGeneration>(out.back()).reason,
            "shard 1: version 4: gradient g1/w0/i1/s1 is not staged");
}

TEST(GenerationEndTest, ItSaysWhichCheckpointWasWholeInIt) {
  CoordinatorOptions job = Job();
  job.generation = Generation(3);
  job.resume = ResumePoint{Generation(2), Version(1), {}};
  job.resume->snapshot.schedule.low_water_mark = BlockId(1);
  Driver run(job);
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  run.Disconnect(kShard1);
  EXPECT_TRUE(run.Join(kShard1).ok());
  EXPECT_EQ(EndOf(run).stored, std::pair(Generation(2), Version(1)));
}

TEST(GenerationEndTest, ACheckpointThatAShardCannotLoadEndsTheGeneration) {
  CoordinatorOptions job = Job();
  job.generation = Generation(3);
  job.resume = ResumePoint{Generation(2), Version(1), {}};
  job.resume->snapshot.schedule.low_water_mark = BlockId(1);
  Driver run(job);
  run.HoldShard(1);
  EXPECT_TRUE(run.Join(kShard0).ok());
  EXPECT_TRUE(run.Join(kShard1).ok());
  Actions out;
  EXPECT_TRUE(run.coordinator()
                  .Executed(ShardId(1), 0, Version(0),
                            "shard-1: cannot be read: open: Input/output error",
                            run.now(), &out)
                  .ok());
  const auto& end = std::get<EndGeneration>(out.back());
  EXPECT_EQ(end.reason,
            "shard 1: shard-1: cannot be read: open: Input/output error");
  EXPECT_EQ(end.fruitless, 0) << "it has come beyond version 0";
}

TEST(GenerationEndTest, InitialWeightsThatCannotBeLoadedFailTheRun) {
  Driver run(Job());
  run.HoldShard(1);
  EXPECT_TRUE(run.Join(kShard0).ok());
  EXPECT_TRUE(run.Join(kShard1).ok());
  Actions out;
  EXPECT_TRUE(run.coordinator()
                  .Executed(ShardId(1), 0, Version(0), "shard-1: no such file",
                            run.now(), &out)
                  .ok());
  EXPECT_EQ(std::get<FinishRun>(out.back()).failure,
            "shard 1: shard-1: no such file");
}

TEST(GenerationEndTest, AShardIsLostWhileTheLastVersionIsEvaluated) {
  CoordinatorOptions job = Job();
  job.job.mutable_evaluation()->set_enabled(true);
  Driver run(job);
  run.Start();
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(run.Deliver(run.TaskOf(0).has_value() ? 0 : 1).ok());
  }
  ASSERT_EQ(run.State().phase, Phase::kFinishing);
  run.Disconnect(kShard1);
  EXPECT_TRUE(run.Join(kShard1).ok());
  EXPECT_EQ(EndOf(run).furthest, Version(10));
}

// ---- What comes to no good ----

TEST(GenerationEndTest,
     GenerationsThatComeNoFurtherAreCountedAndAtLastFailTheRun) {
  // How a generation ends at version 3: with the run, or with the next one.
  const auto end_at_three = [](int fruitless, int64_t furthest) {
    CoordinatorOptions job = Job();
    job.recovery.fruitless = fruitless;
    job.recovery.furthest = Version(furthest);
    Driver run(job);
    MakeThreeUpdates(run);
    run.Disconnect(kShard1);
    EXPECT_TRUE(run.Join(kShard1).ok());
    const auto ends = run.All<EndGeneration>();
    return std::pair(ends.empty() ? EndGeneration() : ends[0],
                     run.Finished().value_or(FinishRun()).failure);
  };
  const int most = RecoveryOptions::kMostFruitless;
  EXPECT_EQ(end_at_three(0, 3).first.fruitless, 1);
  EXPECT_EQ(end_at_three(1, 7).first.fruitless, 2);
  EXPECT_EQ(end_at_three(1, 7).first.furthest, Version(7));
  // One version more is enough to begin to count anew.
  EXPECT_EQ(end_at_three(most - 1, 2).first.reason, "shard 1 restarted");
  EXPECT_EQ(end_at_three(most - 1, 2).first.fruitless, 0);
  EXPECT_EQ(end_at_three(most - 1, 3).second,
            "shard 1 restarted; 5 generations in a row have come no further "
            "than version 3");
}

TEST(GenerationEndTest, ACheckpointIsProgress) {
  CoordinatorOptions job = Job();
  job.job.mutable_checkpoint()->set_every_updates(2);
  job.recovery.fruitless = RecoveryOptions::kMostFruitless - 1;
  job.recovery.furthest = Version(7);
  Driver run(job);
  MakeThreeUpdates(run);
  run.Stored(0, 2);
  run.Stored(1, 2);
  run.ManifestWritten(2);
  run.Disconnect(kShard1);
  EXPECT_TRUE(run.Join(kShard1).ok());
  EXPECT_EQ(EndOf(run).fruitless, 0);
}

// ---- The generation after it ----

TEST(GenerationEndTest, TheNextGenerationSaysWhatTheLastOneCost) {
  CoordinatorOptions job = Job();
  EXPECT_FALSE(Driver(job).State().recovery.has_value());
  job.generation = Generation(2);
  job.resume = ResumePoint{Generation(1), Version(2), {}};
  job.resume->snapshot.schedule.low_water_mark = BlockId(2);
  job.recovery.updates_lost = 9;
  job.recovery.reason = "shard 1 restarted";
  Driver run(job);
  const JobState state = run.State();
  EXPECT_EQ(state.version, Version(2)) << "also before the shards have it";
  ASSERT_TRUE(state.recovery.has_value());
  EXPECT_EQ(state.recovery->restored, Version(2));
  EXPECT_EQ(state.recovery->updates_lost, 9);
  EXPECT_EQ(state.recovery->reason, "shard 1 restarted");
}

TEST(GenerationEndTest, ARecoveryPointMustStillBeOfTheJob) {
  CoordinatorOptions job = Job();
  job.resume = ResumePoint{Generation(1), Version(11), {}};
  job.resume->snapshot.schedule.low_water_mark = BlockId(11);
  EXPECT_THAT(std::string(CheckRecoveryPoint(job).message()),
              HasSubstr("of 11 tasks are done, the job has 10"));
}

}  // namespace
}  // namespace sluice
