#include "sim/job_theory.h"

#include <string>
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
      {"sync.policy=SYNC", "sync.gradients_per_update=6"}};
  for (const auto& overrides : elsewhere) {
    EXPECT_FALSE(Of(overrides).has_value()) << overrides.back();
  }
}

}  // namespace
}  // namespace sluice
