#include "sim/theory/job_theory.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr char kJob[] = R"(
cluster { workers: 4 shards: 1 }
sync { policy: K_SYNC k: 2 }
optimizer { learning_rate: 0.1 }
data { linear_regression { features: 4 } batch_size: 8 }
model { layer { dense { units: 1 } } }
stop { updates: 1 }
delays { compute { exponential { mean_ms: 50 } } }
)";

std::optional<UpdateTime> Of(const std::vector<std::string>& overrides) {
  const auto job = ParseJob(kJob, "test", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? UpdateTimeOf(*job) : std::nullopt;
}

TEST(JobTheoryTest, TakesTheFormulaOfThePolicyAndTheDelay) {
  EXPECT_DOUBLE_EQ(Of({})->low, 0.05 * (1.0 / 4 + 1.0 / 3));
  EXPECT_DOUBLE_EQ(Of({"sync.policy=K_BATCH_SYNC"})->high, 0.025);
  EXPECT_DOUBLE_EQ(
      Of({"delays.compute={shifted_exponential {shift_ms: 10 mean_ms: 50}}"})
          ->low,
      0.01 + 0.05 * (1.0 / 4 + 1.0 / 3));
  EXPECT_DOUBLE_EQ(
      Of({"sync.policy=SYNC", "delays.compute.constant.ms=20"})->low, 0.02);
}

TEST(JobTheoryTest, HasNoneWhereSomethingElseDecidesTheTime) {
  const std::vector<std::vector<std::string>> elsewhere = {
      {"delays.compute.pareto={minimum_ms: 10 shape: 2}"},
      {"delays.latency.constant.ms=1"},
      {"delays.worker_bandwidth=1e6"},
      {"delays.shard_bandwidth=1e6"},
      {"delays={compute {exponential {mean_ms: 50}} worker_factor: 2}"},
      {"sync.policy=ASYNC", "sync.staleness={bound: 3 action: DROP}"},
      {"sync.local_steps=2"},
      {"model={ layer { dense { units: 8 } } layer { dense { units: 1 } } }",
       "worker.group.pipeline_stages=2"},
      {"sync.k_schedule.adaptive={}"},
      {"sync.warm_start_updates=1"},
      {"limits.staged_gradients=3"},
      {"sync.policy=SYNC", "limits.staged_gradients=3"},
      {"sync.policy=ASYNC", "limits.staged_gradients=3"},
      {"sync.policy=K_BATCH_ASYNC", "limits.staged_gradients=4"},
      {"sync.policy=SYNC", "sync.gradients_per_update=6"}};
  for (const auto& overrides : elsewhere) {
    EXPECT_FALSE(Of(overrides).has_value()) << overrides.back();
  }
}

TEST(JobTheoryTest, HasOneWhereShardsHaveRoomForAllThatIsUnderWay) {
  for (const std::string policy : {"SYNC", "K_SYNC", "ASYNC", "K_ASYNC"}) {
    EXPECT_TRUE(Of({"sync.policy=" + policy, "limits.staged_gradients=4"}))
        << policy;
  }
  // All workers compute while K - 1 gradients wait for one more.
  for (const std::string policy : {"K_BATCH_SYNC", "K_BATCH_ASYNC"}) {
    EXPECT_TRUE(Of({"sync.policy=" + policy, "limits.staged_gradients=5"}))
        << policy;
  }
}

double BatchSync(int workers, int k, double shift, double mean) {
  const UpdateTime time = ShiftedExponentialUpdateTime(proto::K_BATCH_SYNC,
                                                       workers, k, shift, mean);
  EXPECT_EQ(time.low, time.high);
  return time.low;
}

TEST(JobTheoryTest, AMeanOfZeroIsAConstantTime) {
  const std::string delay =
      "delays.compute={shifted_exponential {shift_ms: 10 mean_ms: 0}}";
  for (const std::string policy : {"SYNC", "K_SYNC", "K_BATCH_SYNC", "ASYNC",
                                   "K_ASYNC", "K_BATCH_ASYNC"}) {
    const std::string sync = "sync={policy: " + policy + "}";
    const auto constant = Of({sync, "delays.compute.constant.ms=10"});
    const auto shifted = Of({sync, delay});
    EXPECT_EQ(shifted->low, constant->low) << policy;
    EXPECT_EQ(shifted->high, constant->high) << policy;
  }
}

TEST(JobTheoryTest, KAsyncIsAsyncWithOneGradientAndSyncWithAll) {
  const auto time = [](proto::Policy policy, int k) {
    return ShiftedExponentialUpdateTime(policy, 4, k, 0.02, 0.05);
  };
  for (const auto& [k, same] : {std::pair(1, proto::ASYNC), {4, proto::SYNC}}) {
    EXPECT_EQ(time(proto::K_ASYNC, k).low, time(same, 1).low);
    EXPECT_EQ(time(proto::K_ASYNC, k).high, time(same, 1).low);
  }
  EXPECT_LT(time(proto::K_ASYNC, 2).low, time(proto::K_ASYNC, 2).high);
}

TEST(JobTheoryTest, KBatchSyncTakesNoLongWayToItsTime) {
  // Nearly constant, and nearly without shift.
  for (const int k : {1, 64, 65, 300}) {
    const double rounds = (k + 63) / 64;
    EXPECT_NEAR(BatchSync(64, k, 0.01, 1e-9), rounds * 0.01, 1e-7);
    EXPECT_NEAR(BatchSync(64, k, 0.01, 1e-30), rounds * 0.01, 1e-7);
    EXPECT_NEAR(BatchSync(64, k, 1e-9, 0.05) / (k * 0.05 / 64), 1, 1e-4);
  }
  // One renewal of any of P is the smallest of P exponentials.
  EXPECT_NEAR(BatchSync(4096, 1, 0.001, 0.05), 0.001 + 0.05 / 4096, 1e-8);
  // With a long shift all P renew once, or some of them a second time.
  EXPECT_NEAR(BatchSync(512, 512, 1000, 0.05),
              ShiftedExponentialUpdateTime(proto::SYNC, 512, 1, 1000, 0.05).low,
              1e-5);
}

TEST(JobTheoryTest, KBatchSyncOfALargeKHasBoundsThatHoldForASmallOne) {
  const auto bounds =
      ShiftedExponentialUpdateTime(proto::K_BATCH_SYNC, 64, 8192, 0.01, 0.05);
  EXPECT_DOUBLE_EQ(bounds.low, 8192 * 0.06 / 64);
  EXPECT_DOUBLE_EQ(bounds.high, bounds.low + 0.01 * 63 / 64);
  constexpr double kRounding = 1e-4;  // Of the integral.
  for (const int workers : {1, 3, 64, 700}) {
    for (const int k : {1, 63, 64, 65, 512}) {
      const double exact = BatchSync(workers, k, 0.01, 0.05);
      const double low = k * 0.06 / workers;
      EXPECT_GE(exact, low * (1 - kRounding)) << workers << " " << k;
      const double high = low + 0.01 * (workers - 1) / workers;
      EXPECT_LE(exact, high * (1 + kRounding)) << workers << " " << k;
    }
  }
}

}  // namespace
}  // namespace sluice
