// Checks the production coordinator in virtual time against the formulas.
#include "sim/theory/timing.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job/resolved_job.h"
#include "gtest/gtest.h"
#include "sim/theory/theory.h"

namespace sluice {
namespace {

// At which the formulas' measurements end. Half of it takes four times as long.
#ifndef SLUICE_TIMING_PRECISION
#define SLUICE_TIMING_PRECISION 0.01
#endif
constexpr double kPrecision = SLUICE_TIMING_PRECISION;
constexpr double kTolerance = 2 * kPrecision;

struct Choice {
  const char* policy;
  proto::Policy kind;
  int k;  // 0: the policy has no K.
};

ResolvedJob JobOf(const Choice& choice, int workers, const std::string& delay,
                  const std::string& more = "", int shards = 1) {
  const auto job =
      ParseJob(absl::StrCat("cluster { workers: ", workers, " shards: ", shards,
                            " } sync { policy: ", choice.policy,
                            choice.k > 0 ? absl::StrCat(" k: ", choice.k) : "",
                            " } data { linear_regression { features: ",
                            shards == 1 ? 3 : 16 * shards - 1,
                            " } } "
                            "model { layer { dense { units: 1 } } } "
                            "stop { updates: 1 } seed: 11 delays { compute { ",
                            delay, " } ", more, " }"),
               "test", {});
  EXPECT_TRUE(job.ok()) << job.status();
  return *job;
}

Timing Measured(const Choice& choice, int workers, const std::string& delay,
                const std::string& more = "", double precision = kPrecision) {
  const auto timing = MeasureTiming(JobOf(choice, workers, delay, more),
                                    {.precision = precision});
  EXPECT_TRUE(timing.ok()) << timing.status();
  return *timing;
}

std::vector<Choice> Choices(int workers) {
  return {{"SYNC", proto::SYNC, 0},
          {"K_SYNC", proto::K_SYNC, workers * 3 / 4},
          {"K_SYNC", proto::K_SYNC, workers / 2},
          {"K_BATCH_SYNC", proto::K_BATCH_SYNC, workers / 2},
          {"K_BATCH_SYNC", proto::K_BATCH_SYNC, 2 * workers},
          {"ASYNC", proto::ASYNC, 0},
          {"K_ASYNC", proto::K_ASYNC, workers / 2},
          {"K_BATCH_ASYNC", proto::K_BATCH_ASYNC, workers / 2}};
}

class FormulaTest : public ::testing::TestWithParam<int> {};

TEST_P(FormulaTest, ExponentialTimesGiveTheExpectedTimePerUpdate) {
  const int workers = GetParam();
  for (const Choice& choice : Choices(workers)) {
    const double expected =
        ShiftedExponentialUpdateTime(choice.kind, workers, choice.k, 0, 0.05)
            .low;
    const Timing timing =
        Measured(choice, workers, "exponential { mean_ms: 50 }");
    EXPECT_NEAR(timing.mean_update_time, expected, kTolerance * expected)
        << choice.policy << " K " << choice.k << " P " << workers;
  }
}

TEST_P(FormulaTest, ShiftedExponentialTimesToo) {
  const int workers = GetParam();
  for (const Choice& choice : Choices(workers)) {
    const UpdateTime expected = ShiftedExponentialUpdateTime(
        choice.kind, workers, choice.k, 0.02, 0.05);
    const Timing timing = Measured(
        choice, workers, "shifted_exponential { shift_ms: 20 mean_ms: 50 }");
    EXPECT_GE(timing.mean_update_time, expected.low * (1 - kTolerance))
        << choice.policy << " K " << choice.k << " P " << workers;
    EXPECT_LE(timing.mean_update_time, expected.high * (1 + kTolerance))
        << choice.policy << " K " << choice.k << " P " << workers;
  }
}

TEST_P(FormulaTest, ConstantTimesGoInRounds) {
  const int workers = GetParam();
  for (const Choice& choice : Choices(workers)) {
    const double expected =
        ConstantUpdateTime(choice.kind, workers, choice.k, 0.03);
    EXPECT_NEAR(
        Measured(choice, workers, "constant { ms: 30 }").mean_update_time,
        expected, kTolerance * expected)
        << choice.policy << " K " << choice.k << " P " << workers;
  }
}

TEST_P(FormulaTest, StalenessDoesNotDependOnTheDistribution) {
  const int workers = GetParam();
  for (const Choice& choice : Choices(workers)) {
    const double expected = ExpectedStaleness(choice.kind, workers, choice.k);
    for (const char* delay :
         {"exponential { mean_ms: 50 }", "pareto { minimum_ms: 1 shape: 3 }",
          "log_normal { median_ms: 10 sigma: 0.5 }",
          "two_speed { ms: 10 slow_share: 0.25 slow_factor: 3.1 }"}) {
      // The mean staleness settles long before the time per update does.
      EXPECT_NEAR(Measured(choice, workers, delay, "", 0.05).mean_staleness,
                  expected, kTolerance * expected)
          << choice.policy << " K " << choice.k << " P " << workers << " "
          << delay;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, FormulaTest, ::testing::Values(4, 16),
                         ::testing::PrintToStringParamName());

TEST(TimingTest, ScalingEfficiencyIsWhatWaitingAndWasteLeave) {
  const std::string delay = "exponential { mean_ms: 50 }";
  // t1 / tn under SYNC: 1 / H_4.
  EXPECT_NEAR(Measured({"SYNC", proto::SYNC, 0}, 4, delay).scaling_efficiency,
              12.0 / 25, kTolerance);
  EXPECT_NEAR(Measured({"ASYNC", proto::ASYNC, 0}, 4, delay).scaling_efficiency,
              1, kTolerance);
  // A worker of twice the time counts as half a worker.
  EXPECT_NEAR(Measured({"ASYNC", proto::ASYNC, 0}, 4, "constant { ms: 50 }",
                       "worker_factor: 2")
                  .scaling_efficiency,
              1.25 * 3.5 / 4, kTolerance);
}

TEST(TimingTest, KSyncWastesTheTasksItCancels) {
  const Timing timing =
      Measured({"K_SYNC", proto::K_SYNC, 3}, 4, "exponential { mean_ms: 50 }");
  // Of the four tasks of a version one is cancelled.
  EXPECT_NEAR(timing.wasted, 0.25, 0.001);
  EXPECT_GT(timing.wasted_time, 0.25);  // The cancelled task is the longest.
  EXPECT_GT(timing.idle, 0);            // The first two wait for the third.
}

TEST(TimingTest, ATaskThatIsDoneBeforeItsCancelArrivesIsWasted) {
  // The first gradient is at the shard 15 ms after its worker began. The other
  // worker, which takes 18 ms, hears of it after 20 ms.
  const Timing timing =
      Measured({"K_SYNC", proto::K_SYNC, 1}, 2, "constant { ms: 10 }",
               "worker_factor: 1 worker_factor: 1.8 "
               "latency { constant { ms: 5 } } } "
               "limits { staged_gradients: 10");
  EXPECT_NEAR(timing.wasted, 0.5, 0.001);
  EXPECT_NEAR(timing.wasted_time, 18.0 / 28, 0.001);
}

TEST(TimingTest, AGradientMayArriveWhenItsWorkersNextTaskHasEndedToo) {
  // A slow Cancel does that.
  const Timing timing =
      Measured({"K_SYNC", proto::K_SYNC, 1}, 8, "exponential { mean_ms: 5 }",
               "latency { exponential { mean_ms: 10 } } } "
               "limits { staged_gradients: 100");
  EXPECT_NEAR(timing.wasted, 7.0 / 8, 0.001);
}

TEST(TimingTest, RejectedAndLostTasksAreWastedAsTheirTimeIs) {
  SimulationWindow window;
  window.commits = {0};
  window.started = 8;
  for (const Outcome outcome : {Outcome::kCancelled, Outcome::kDropped,
                                Outcome::kRejected, Outcome::kLost}) {
    window.Ended(outcome);
  }
  EXPECT_EQ(TimingOf(window, 1, {}).wasted, 0.5);
}

TEST(TimingTest, EachWorkersIdleShareIsItsOwn) {
  const Timing timing = Measured({"SYNC", proto::SYNC, 0}, 4,
                                 "constant { ms: 30 }", "worker_factor: 2");
  // All workers wait for the first.
  ASSERT_EQ(timing.worker_idle.size(), 4);
  EXPECT_NEAR(timing.worker_idle[0], 0, 1e-3);
  for (const int w : {1, 2, 3}) {
    EXPECT_NEAR(timing.worker_idle[w], 0.5, 1e-3);
  }
  EXPECT_NEAR(timing.idle, 0.375, 1e-3);
}

TEST(TimingTest, AsynchronousWorkersNeverIdleWithoutANetwork) {
  const Timing timing =
      Measured({"ASYNC", proto::ASYNC, 0}, 4, "constant { ms: 30 }");
  EXPECT_NEAR(timing.idle, 0, 1e-3);
  EXPECT_EQ(timing.wasted, 0);
}

TEST(TimingTest, LatencyIsPaidSixTimesByATaskOfSyncAndWithOneShardFourTimes) {
  const auto measured = [](int shards) {
    const auto timing =
        MeasureTiming(JobOf({"SYNC", proto::SYNC, 0}, 2, "constant { ms: 30 }",
                            "latency { constant { ms: 1 } }", shards),
                      {.precision = kPrecision});
    EXPECT_TRUE(timing.ok()) << timing.status();
    return timing->mean_update_time;
  };
  // Six messages: task, pull, slice, push, staged, ready.
  EXPECT_NEAR(measured(2), 0.036, 1e-6);
  // Without the last two: ready travels with the push.
  EXPECT_NEAR(measured(1), 0.034, 1e-6);
}

TEST(TimingTest, OnlyASlowWorkersMessagesAreSlow) {
  for (const int shards : {1, 2}) {
    const auto timing = MeasureTiming(
        JobOf({"ASYNC", proto::ASYNC, 0}, 4, "constant { ms: 10 }",
              "latency { two_speed { ms: 1 slow_share: 0.25 slow_factor: 100 "
              "} }",
              shards),
        {.precision = kPrecision});
    ASSERT_TRUE(timing.ok()) << timing.status();
    const double messages = shards == 1 ? 4 : 6;
    const double rate =
        1 / (0.01 + messages * 0.1) + 3 / (0.01 + messages * 0.001);
    EXPECT_NEAR(timing->mean_update_time * rate, 1, kTolerance) << shards;
  }
}

// Messages between coordinator and shards draw from all lines of a trace.
TEST(TimingTest, NoMessageTravelsBetweenTheCoordinatorAndItsOwnShard) {
  const std::string path = testing::TempDir() + "/latency.txt";
  std::ofstream(path) << "0 0\n1000 1\n";
  const auto measured = [&](int shards) {
    const auto timing = MeasureTiming(
        JobOf({"ASYNC", proto::ASYNC, 0}, 1, "constant { ms: 30 }",
              absl::StrCat("latency { trace { path: \"", path, "\" } }"),
              shards),
        {.precision = kPrecision});
    EXPECT_TRUE(timing.ok()) << timing.status();
    return timing->mean_update_time;
  };
  EXPECT_NEAR(measured(1), 0.030, 1e-9);
  EXPECT_GT(measured(2), 0.100);
}

TEST(TimingTest, OfAGroupReadyTravelsByItselfToOneShardAsToTwo) {
  const auto measured = [](int shards) {
    const auto job = ParseJob(
        absl::StrCat("cluster { workers: 2 shards: ", shards,
                     " } sync { policy: SYNC } "
                     "worker { group { pipeline_stages: 2 } } "
                     "data { linear_regression { features: 15 } } "
                     "model { layer { dense { units: 16 } } "
                     "layer { dense { units: 1 } } } "
                     "stop { updates: 1 } seed: 11 delays { compute { "
                     "constant { ms: 30 } } latency { constant { ms: 1 } } }"),
        "test", {});
    EXPECT_TRUE(job.ok()) << job.status();
    const auto timing = MeasureTiming(*job, {.precision = kPrecision});
    EXPECT_TRUE(timing.ok()) << timing.status();
    return timing->mean_update_time;
  };
  EXPECT_NEAR(measured(1), measured(2), 1e-6);
}

TEST(TimingTest, BandwidthOfTheShardIsSharedByItsWorkers) {
  // Four floats go to each of two workers over one link, and back. The second
  // worker's slice comes after the first's, and so do the gradients.
  const Timing timing =
      Measured({"SYNC", proto::SYNC, 0}, 2, "constant { ms: 30 }",
               "shard_bandwidth: 16000");
  EXPECT_NEAR(timing.mean_update_time, 0.030 + 0.001 + 0.002, 1e-6);
}

TEST(TimingTest, FloatsOfTwoBytesTakeHalfTheBandwidth) {
  const std::string link = "shard_bandwidth: 16000 } wire { ";
  // As above, but the second worker's gradient takes half a millisecond.
  const Timing push = Measured({"SYNC", proto::SYNC, 0}, 2,
                               "constant { ms: 30 }", link + "push: BF16");
  EXPECT_NEAR(push.mean_update_time, 0.030 + 0.002 + 0.0005, 1e-6);
  EXPECT_EQ(push.push_bytes[0] * 2, push.pull_bytes[0]);
  // Both slices have arrived after one millisecond, when the first gradient
  // still needs half a millisecond.
  const Timing pull = Measured({"SYNC", proto::SYNC, 0}, 2,
                               "constant { ms: 30 }", link + "pull: BF16");
  EXPECT_NEAR(pull.mean_update_time, 0.030 + 0.0005 + 0.002, 1e-6);
}

TEST(TimingTest, AGroupTakesAsLongAsItsPipeline) {
  const auto job = ParseJob(
      "cluster { workers: 2 } sync { policy: ASYNC } stop { updates: 1 } "
      "data { linear_regression { features: 8 } batch_size: 32 } "
      "model { layer { dense { units: 8 } } layer { dense { units: 7 } } "
      "        layer { dense { units: 1 } } } "
      "worker { micro_batch: 8 group { pipeline_stages: 2 } } "
      "delays { compute { constant { ms: 80 } } }",
      "test", {});
  ASSERT_TRUE(job.ok()) << job.status();
  const auto timing = MeasureTiming(*job, {});
  ASSERT_TRUE(timing.ok()) << timing.status();
  // Stages of about half the work: four micro-batches take as long as five.
  EXPECT_NEAR(timing->task.seconds, 0.05, 0.001);
  EXPECT_EQ(timing->task.computing.size(), 2);
  EXPECT_NEAR(2 * timing->mean_update_time, timing->task.seconds, 1e-6);
}

TEST(TimingTest, AGradientWhoseTurnIsToComeWaitsForThoseBeforeIt) {
  const auto measured = [](const std::string& limits) {
    return Measured({"SYNC gradients_per_update: 4", proto::SYNC, 0}, 2,
                    "constant { ms: 10 }",
                    "worker_factor: 3 } limits { " + limits);
  };
  // While worker 0 computes one gradient, the other computes three.
  EXPECT_NEAR(measured("").mean_update_time, 0.030, 1e-6);
  // With room for one, worker 1 has the second and the fourth. Each waits for
  // the one before it, which takes 30 ms.
  EXPECT_NEAR(measured("staged_gradients: 1").mean_update_time, 0.060, 1e-6);
  // With room for three, only the fourth would wait.
  EXPECT_NEAR(measured("staged_gradients: 3").mean_update_time, 0.030, 1e-6);
}

TEST(TimingTest, AWarmStartIsLeftOut) {
  const Timing timing =
      Measured({"ASYNC warm_start_updates: 100000", proto::ASYNC, 0}, 8,
               "constant { ms: 80 }");
  EXPECT_NEAR(timing.mean_update_time, 0.010, 1e-6);
  // Less than the eight tasks under way at the end, of 3,200.
  EXPECT_NEAR(timing.idle, 0, 8.0 / 3200);
}

TEST(TimingTest, OfAScheduleByVersionTheLastKIsMeasured) {
  const Timing timing = Measured(
      {"K_SYNC k_schedule { by_version { change { from_version: 5 k: 3 } "
       "change { from_version: 1000000 k: 4 } } }",
       proto::K_SYNC, 1},
      4, "constant { ms: 30 }");
  EXPECT_EQ(timing.wasted, 0);  // With K = 1, three of four tasks.
}

TEST(TimingTest, OneSeedGivesOneRun) {
  const Choice choice = {"K_BATCH_ASYNC", proto::K_BATCH_ASYNC, 3};
  const std::string delay = "log_normal { median_ms: 10 sigma: 1 }";
  EXPECT_EQ(Measured(choice, 5, delay).mean_update_time,
            Measured(choice, 5, delay).mean_update_time);
}

// All updates of a round fall at one instant.
TEST(TimingTest, ConstantTimesOfMoreWorkersThanTheFirstUpdatesAreMeasured) {
  const Timing timing =
      Measured({"ASYNC", proto::ASYNC, 0}, 4096, "constant { ms: 10 }");
  EXPECT_NEAR(timing.mean_update_time, 0.010 / 4096, kTolerance * 0.010 / 4096);
}

TEST(TimingTest, AJobWithoutComputeTimesIsRefused) {
  const Choice choice = {"ASYNC", proto::ASYNC, 0};
  const auto refused =
      MeasureTiming(JobOf(choice, 2, "constant { ms: 0 }"), {});
  EXPECT_EQ(refused.status().message(),
            "delays.compute: must be set, and not always 0, for a simulation");
}

// Its updates have no end.
TEST(TimingTest, AWorkerThatTakesNoTimeIsRefusedWhereNobodyWaitsForIt) {
  const std::string path = testing::TempDir() + "/trace.txt";
  std::ofstream(path) << "0 0\n500 1\n";
  const std::string delay = absl::StrCat("trace { path: \"", path, "\" }");
  const auto async =
      MeasureTiming(JobOf({"ASYNC", proto::ASYNC, 0}, 2, delay), {});
  EXPECT_EQ(async.status().message(),
            "delays.compute: 3200 updates take no time, as the draws of a "
            "worker that nobody waits for are all below 1 ns");
  EXPECT_EQ(Measured({"SYNC", proto::SYNC, 0}, 2, delay).mean_update_time, 0.5);
}

TEST(TimingTest, ASimulationThatReachesTheEndOfVirtualTimeSaysSo) {
  const auto timing =
      MeasureTiming(JobOf({"SYNC", proto::SYNC, 0}, 2, "constant { ms: 1e9 }",
                          "latency { constant { ms: 1e9 } } } "
                          "limits { task_deadline_s: 1e9 start_timeout_s: 1e9"),
                    {});
  EXPECT_EQ(timing.status().code(), absl::StatusCode::kOutOfRange);
  // An update takes 5e6 s, of 2^62 ns.
  EXPECT_TRUE(absl::StrContains(timing.status().message(),
                                "146 years, after update 922"))
      << timing.status();
}

TEST(TimingTest, AnIntervalOfNoWidthIsOfAnyPrecision) {
  const Timing timing = Measured({"SYNC", proto::SYNC, 0}, 2,
                                 "constant { ms: 1 }", "", /*precision=*/0);
  EXPECT_EQ(timing.updates, 3200);
}

TEST(TimingTest, ProgressHearsOfEachUpdate) {
  int64_t heard = 0;
  TimingOptions options;
  options.most_updates = 40;
  options.progress = [&heard](int64_t updates) { EXPECT_EQ(++heard, updates); };
  const auto timing = MeasureTiming(
      JobOf({"SYNC", proto::SYNC, 0}, 2, "constant { ms: 1 }"), options);
  ASSERT_TRUE(timing.ok()) << timing.status();
  EXPECT_EQ(heard, timing->updates + 1);
}

}  // namespace
}  // namespace sluice
