// Feeds a run's compute_times.txt back into `delays.compute.trace`.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/delay_model.h"
#include "common/job/resolved_job.h"
#include "gtest/gtest.h"
#include "sim/simulated_run.h"
#include "sim/theory/timing.h"

namespace sluice {
namespace {

// Worker 0 is four times as slow as the others.
constexpr char kJob[] = R"(
name: "linear"
cluster { workers: 4 shards: 2 }
sync { policy: ASYNC }
optimizer { learning_rate: 0.001 }
data {
  linear_regression { features: 40 train_samples: 1280 test_samples: 64 }
  batch_size: 16
}
model { layer { dense { units: 1 } } }
stop { epochs: 100 }
evaluation { every_epochs: 0 }
delays { compute { exponential { mean_ms: 50 } } worker_factor: 4 }
)";
constexpr int64_t kGradients = 100 * 1280 / 16;

ResolvedJob Job(const std::vector<std::string>& overrides = {}) {
  auto job = ParseJob(kJob, "test", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  return *std::move(job);
}

struct Recorded {
  std::string path;
  std::vector<std::vector<double>> ms = {{}, {}, {}, {}};  // By worker.
};

Recorded Record(const std::string& name,
                const std::vector<std::string>& overrides = {}) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/", name);
  std::filesystem::remove_all(folder);
  const auto run =
      SimulateRun(Job(overrides), {.run_dir = folder, .target = {}});
  EXPECT_TRUE(run.ok()) << run.status();
  Recorded recorded{folder + "/compute_times.txt"};
  std::ifstream in(recorded.path);
  int worker = 0;
  for (double ms = 0; in >> ms >> worker;) recorded.ms.at(worker).push_back(ms);
  return recorded;
}

// Replaces all of `delays`, because the measured times include the workers'
// factors.
std::string Replaced(const Recorded& recorded) {
  return absl::StrCat("delays={ compute { trace { path: \"", recorded.path,
                      "\" } } }");
}

// The largest distance between two empirical distribution functions.
double Distance(std::vector<double> a, std::vector<double> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  double distance = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto below = std::upper_bound(b.begin(), b.end(), a[i]) - b.begin();
    distance = std::max(
        distance, std::abs((i + 1.0) / a.size() - 1.0 * below / b.size()));
  }
  return distance;
}

TEST(ComputeTimesTest, EveryDeliveredGradientLeavesWhatItsTaskDrew) {
  const Recorded recorded = Record("drawn");
  const auto drawn = ComputeDelay::Create(Job().job);
  ASSERT_TRUE(drawn.ok());
  int64_t gradients = 0;
  for (int w = 0; w < 4; ++w) {
    gradients += recorded.ms[w].size();
    for (size_t i = 0; i < recorded.ms[w].size(); ++i) {
      ASSERT_NEAR(recorded.ms[w][i], 1e3 * drawn->Draw(w, i + 1, 1), 2e-6);
    }
  }
  EXPECT_EQ(gradients, kGradients);
}

TEST(ComputeTimesTest, WithLocalStepsALineIsTheMeanOverThem) {
  const Recorded recorded =
      Record("local", {"sync.local_steps=4", "stop.epochs=1"});
  const auto drawn = ComputeDelay::Create(Job().job);
  EXPECT_NEAR(recorded.ms[1][0], 1e3 * drawn->Draw(1, 1, 4) / 4, 2e-6);
}

TEST(ComputeTimesTest, GivenBackTheyAreDistributedAsTheyWere) {
  const Recorded first = Record("first");
  const Recorded again = Record("again", {Replaced(first), "seed=7"});
  for (int w = 0; w < 4; ++w) {
    const auto& a = first.ms[w];
    const auto& b = again.ms[w];
    ASSERT_GT(b.size(), 500);
    EXPECT_NE(a, b);
    // The Kolmogorov-Smirnov bound at level 0.001; the seed is fixed.
    EXPECT_LT(Distance(a, b), 1.95 * std::sqrt(1.0 / a.size() + 1.0 / b.size()))
        << "worker " << w;
  }
}

TEST(ComputeTimesTest, GivenBackTheyForetellTheTimesOfOtherPolicies) {
  const std::string trace = Replaced(Record("asynchronous"));
  for (const std::string policy : {"SYNC", "K_SYNC", "K_BATCH_ASYNC"}) {
    const std::vector<std::string> sync = {"sync.policy=" + policy, "sync.k=2"};
    std::vector<std::string> fed = sync;
    fed.push_back(trace);
    const auto truth = MeasureTiming(Job(sync), {.precision = 0.01});
    const auto foretold = MeasureTiming(Job(fed), {.precision = 0.01});
    ASSERT_TRUE(truth.ok() && foretold.ok());
    EXPECT_NEAR(foretold->mean_update_time / truth->mean_update_time, 1, 0.05)
        << policy;
  }
}

}  // namespace
}  // namespace sluice
