#include "sim/simulated_run.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/resolved_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/log/commit_log_file.h"
#include "worker/compute/compute_context.h"
#include "worker/reference/reference_trainer.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kJob[] = R"(
name: "linear"
cluster { workers: 4 shards: 2 }
sync { policy: SYNC }
optimizer { learning_rate: 0.05 sgd { momentum: 0.5 } }
data {
  linear_regression { features: 40 train_samples: 1270 test_samples: 64 }
  batch_size: 32
}
model { layer { dense { units: 1 initializer { kind: CONSTANT } } } }
stop { epochs: 2 }
delays { compute { exponential { mean_ms: 50 } } }
)";

ResolvedJob Job(const std::vector<std::string>& overrides = {},
                const std::string& text = kJob) {
  auto job = ParseJob(text, "test", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  return *std::move(job);
}

SimulatedRun Simulate(const ResolvedJob& job,
                      const SimulatedRunOptions& options = {}) {
  auto run = SimulateRun(job, options);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? *std::move(run) : SimulatedRun();
}

std::string Folder(const std::string& name) {
  const std::string path = absl::StrCat(testing::TempDir(), "/", name);
  fs::remove_all(path);
  return path;
}

std::map<std::string, std::string> Files(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    files[entry.path().filename()] = bytes.str();
  }
  return files;
}

// ---- SYNC: the bits of one process that trains alone ----

void ExpectReferenceBits(const ResolvedJob& job) {
  const auto context = MakeTrainingContext(job, WorkerId(0));
  ASSERT_TRUE(context.ok()) << context.status();
  context->Enter();
  const auto alone = TrainReference(job, *context->data, context->model.get());
  ASSERT_TRUE(alone.ok()) << alone.status();
  const SimulatedRun run = Simulate(job);
  ASSERT_TRUE(run.state.final_evaluation.has_value());
  EXPECT_EQ(run.state.version, alone->version);
  EXPECT_EQ(run.state.final_evaluation->weights_sha256, alone->weights_sha256);
}

TEST(SimulatedRunTest, SyncGivesTheBitsOfOneProcessForAnyCluster) {
  for (const int workers : {1, 3, 8}) {
    for (const int shards : {1, 3}) {
      ExpectReferenceBits(Job({absl::StrCat("cluster.workers=", workers),
                               absl::StrCat("cluster.shards=", shards),
                               "sync.gradients_per_update=4",
                               "delays.latency.exponential.mean_ms=5"}));
    }
  }
}

TEST(SimulatedRunTest, SyncGivesTheBitsOfOneProcessWithLocalSteps) {
  ExpectReferenceBits(Job({"sync.local_steps=3"}));
}

TEST(SimulatedRunTest, SyncGivesTheBitsOfOneProcessWithBatchNormAndDropout) {
  std::string text = kJob;
  const std::string layers =
      "model { layer { batch_norm {} } layer { dense { units: 9 } } "
      "layer { dropout { rate: 0.3 } } layer { relu {} } ";
  text.replace(text.find("model { "), 8, layers);
  ExpectReferenceBits(
      Job({"worker.clip_norm=2", "worker.micro_batch=20"}, text));
}

constexpr char kTwoLayers[] =
    "model={ layer { dense { units: 30 } } layer { dense { units: 1 } } }";

TEST(SimulatedRunTest, SyncGivesTheBitsOfOneProcessWithAPipeline) {
  ExpectReferenceBits(Job({kTwoLayers, "cluster.shards=3",
                           "worker={ micro_batch: 8 "
                           "         group { pipeline_stages: 2 } }"}));
}

// ---- Every policy ----

class PolicyTest : public testing::TestWithParam<const char*> {
 protected:
  ResolvedJob PolicyJob(std::vector<std::string> overrides = {}) {
    overrides.push_back(absl::StrCat("sync.policy=", GetParam()));
    overrides.push_back("sync.k=2");
    overrides.push_back("optimizer.learning_rate=0.01");
    overrides.push_back("delays.latency.exponential.mean_ms=20");
    return Job(overrides);
  }
};

TEST_P(PolicyTest, LearnsAndComputesNothingThatIsCancelledBeforeDelivery) {
  const SimulatedRun run = Simulate(PolicyJob());
  EXPECT_EQ(run.state.counters.applied, 80);  // Two epochs of 40.
  EXPECT_GE(run.computed, 80);
  // Gradients that were just delivered when the run ended.
  EXPECT_LE(run.computed, 80 + 4);
  ASSERT_GE(run.evaluations.size(), 2);
  EXPECT_LT(run.evaluations.back().evaluation.loss,
            0.9 * run.evaluations.front().evaluation.loss);
  EXPECT_EQ(run.timing.updates, run.state.version.value());
}

TEST_P(PolicyTest, GivesEqualBytesTwice) {
  const ResolvedJob job = PolicyJob();
  const std::string once = Folder("once"), twice = Folder("twice");
  Simulate(job, {.run_dir = once, .target = {}});
  Simulate(job, {.run_dir = twice, .target = {}});
  const auto files = Files(once);
  EXPECT_EQ(files, Files(twice));
  for (const char* name :
       {"job.textproto", "commit_log", "metrics.jsonl", "compute_times.txt",
        "summary.json", "weights.safetensors"}) {
    EXPECT_TRUE(files.contains(name)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PolicyTest,
                         testing::Values("SYNC", "K_SYNC", "K_BATCH_SYNC",
                                         "ASYNC", "K_ASYNC", "K_BATCH_ASYNC"),
                         [](const auto& info) { return info.param; });

TEST(SimulatedRunTest, ShardsMayGiveDifferentBasesAndTheLogSaysWhich) {
  const std::string folder = Folder("bases");
  Simulate(Job({"sync.policy=ASYNC", "optimizer.learning_rate=0.005",
                "delays.latency.exponential.mean_ms=30"}),
           {.run_dir = folder, .target = {}});
  const auto log = ReadCommitLog(folder + "/commit_log");
  ASSERT_TRUE(log.ok()) << log.status();
  int64_t updates = 0, different = 0;
  for (const proto::LogRecord& record : log->records) {
    for (const proto::LogEntry& entry : record.commit().entry()) {
      ASSERT_EQ(entry.shard_base_size(), 2);
      ++updates;
      different += entry.shard_base(0) != entry.shard_base(1);
    }
  }
  EXPECT_EQ(updates, 80);
  EXPECT_GT(different, 10);
}

TEST(SimulatedRunTest, TheLogSaysFromWhereEachMemberPushes) {
  const std::string folder = Folder("members");
  Simulate(
      Job({kTwoLayers, "sync.policy=ASYNC", "optimizer.learning_rate=0.001",
           "worker.group={ pipeline_stages: 2 }",
           "delays.latency.exponential.mean_ms=30"}),
      {.run_dir = folder, .target = {}});
  const auto log = ReadCommitLog(folder + "/commit_log");
  ASSERT_TRUE(log.ok()) << log.status();
  // The second member has the last 31 of 1,261 floats, on the second shard.
  int64_t updates = 0;
  for (const proto::LogRecord& record : log->records) {
    for (const proto::LogEntry& entry : record.commit().entry()) {
      ASSERT_EQ(entry.shard_base_size(), 3);
      EXPECT_EQ(entry.shard_base(1), entry.shard_base(2));
      ++updates;
    }
  }
  EXPECT_EQ(updates, 80);
}

// ---- Its end ----

TEST(SimulatedRunTest, ATargetLossEndsTheRunWhenAnEvaluationReachesIt) {
  const ResolvedJob job =
      Job({"stop.epochs=100", "evaluation.every_epochs=0.5"});
  const SimulatedRun run =
      Simulate(job, {.run_dir = "", .target = {.accuracy = {}, .loss = 1}});
  ASSERT_TRUE(run.reached.has_value());
  EXPECT_LE(run.reached->evaluation.loss, 1);
  EXPECT_LT(run.state.epoch, 20);
  EXPECT_EQ(run.state.version, run.reached->evaluation.version);
  // No earlier evaluation reaches the target.
  for (const auto& measured : run.evaluations) {
    if (measured.seconds < run.reached->seconds) {
      EXPECT_GT(measured.evaluation.loss, 1);
    }
  }
}

TEST(SimulatedRunTest, StopSecondsEndARunThatWaitsForItsTasks) {
  const SimulatedRun run =
      Simulate(Job({"stop={seconds: 3}", "delays.compute.constant.ms=10000"}));
  EXPECT_EQ(absl::ToDoubleSeconds(run.state.running), 3);
  EXPECT_EQ(run.state.version.value(), 0);
  EXPECT_EQ(run.state.message, "3s are over");
}

TEST(SimulatedRunTest, TasksThatTheEndCancelsHaveComputedUntilThen) {
  // Worker w takes 1 + w seconds. The first gradient ends the run.
  const std::vector<std::string> first = {
      "sync={ policy: K_SYNC k: 1 }", "cluster.shards=1",
      "delays={ compute { constant { ms: 1000 } } worker_factor: 1 "
      "worker_factor: 2 worker_factor: 3 worker_factor: 4 }",
      "stop={ updates: 1 }"};
  const SimulatedRun run = Simulate(Job(first));
  EXPECT_NEAR(run.timing.wasted_time, 0.75, 1e-9);
  EXPECT_NEAR(run.timing.idle, 0, 1e-9);
  std::vector<std::string> late = first;
  late.push_back("delays.latency.constant.ms=50");
  // Of 1.2 s all computed from 0.15 s on, the first until 1.15 s.
  const Timing timing = Simulate(Job(late)).timing;
  EXPECT_NEAR(timing.wasted_time, 3.15 / 4.15, 1e-9);
  EXPECT_NEAR(timing.idle, 1 - 4.15 / 4.8, 1e-9);
}

TEST(SimulatedRunTest, ATaskThatIsOverdueIsGivenOutAgain) {
  const std::vector<std::string> late = {"delays.compute.constant.ms=170",
                                         "limits.task_deadline_s=0.1",
                                         "stop.epochs=1"};
  const SimulatedRun run = Simulate(Job(late));
  // Each of the 40 mini-batches is cancelled once, at the next tenth of a
  // second after its deadline. Then it may take 0.2 s. An update begins every
  // 0.3 s, but for the first, 0.03 s before a tenth.
  EXPECT_EQ(run.state.counters.tasks_overdue, 40);
  EXPECT_EQ(run.state.counters.cancelled, 40);
  EXPECT_EQ(run.state.epoch, 1);
  EXPECT_NEAR(absl::ToDoubleSeconds(run.state.running), 10 * 0.3 - 0.03, 1e-6);
  EXPECT_NEAR(run.timing.wasted_time, (0.1 + 9 * 0.13) / (10 * 0.3 - 0.03),
              1e-6);
}

TEST(SimulatedRunTest, AMiniBatchThatIsAlwaysOverdueEndsTheRun) {
  const auto run = SimulateRun(
      Job({"delays.compute.constant.ms=250", "limits.task_deadline_s=0.1"}),
      {.run_dir = "", .target = {}});
  EXPECT_TRUE(absl::IsInternal(run.status()));
  EXPECT_THAT(std::string(run.status().message()),
              HasSubstr("raise limits.task_deadline_s"));
}

TEST(SimulatedRunTest, AnOldTaskThatIsNotOverdueEndsNoLease) {
  const SimulatedRun run =
      Simulate(Job({"delays.compute.constant.ms=500000", "stop.epochs=1"}));
  EXPECT_EQ(run.state.counters.cancelled, 0);
  EXPECT_NEAR(absl::ToDoubleSeconds(run.state.running), 10 * 500, 1e-6);
}

TEST(SimulatedRunTest, ATargetThatCannotBeMeasuredIsRefused) {
  const auto refusal = [](const std::vector<std::string>& overrides,
                          const SimulationTarget& target) {
    const auto run =
        SimulateRun(Job(overrides), {.run_dir = "", .target = target});
    EXPECT_TRUE(absl::IsInvalidArgument(run.status())) << run.status();
    return std::string(run.status().message());
  };
  EXPECT_THAT(refusal({}, {.accuracy = 0.5, .loss = {}}), HasSubstr("labels"));
  EXPECT_THAT(
      refusal({"evaluation.every_epochs=0"}, {.accuracy = {}, .loss = 1}),
      HasSubstr("evaluation.every_epochs"));
  EXPECT_THAT(refusal({}, {.accuracy = {}, .loss = NAN}),
              HasSubstr("not a finite number"));
}

TEST(SimulatedRunTest, ADivergingRunNamesTheTensorAndLeavesASummary) {
  const std::string folder = Folder("diverging");
  const auto run = SimulateRun(Job({"optimizer.learning_rate=1e6"}),
                               {.run_dir = folder, .target = {}});
  EXPECT_TRUE(absl::IsInternal(run.status()));
  EXPECT_THAT(std::string(run.status().message()),
              testing::AllOf(HasSubstr("diverged"), HasSubstr("dense0.")));
  EXPECT_THAT(Files(folder)["summary.json"], HasSubstr("diverged"));
}

TEST(SimulatedRunTest, AnAdaptiveKGrowsAsTheLossFalls) {
  const std::string folder = Folder("adaptive");
  Simulate(Job({"sync.policy=K_BATCH_SYNC", "stop.epochs=10",
                "optimizer.learning_rate=0.01",
                "sync.k_schedule={ adaptive { max_k: 6 "
                "smoothing_updates: 5 } }",
                "sync.k=1"}),
           {.run_dir = folder, .target = {}});
  const auto log = ReadCommitLog(folder + "/commit_log");
  ASSERT_TRUE(log.ok()) << log.status();
  std::vector<int> sizes;
  for (const proto::LogRecord& record : log->records) {
    if (record.has_commit()) sizes.push_back(record.commit().entry_size());
  }
  sizes.pop_back();  // The last update takes the rest.
  EXPECT_EQ(sizes.front(), 1);
  EXPECT_EQ(sizes.back(), 6);
  EXPECT_TRUE(std::is_sorted(sizes.begin(), sizes.end()));
}

}  // namespace
}  // namespace sluice
