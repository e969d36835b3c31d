#include "ps_server/coordinator/report/metrics_writer.h"

#include <sys/resource.h>

#include <fstream>
#include <iterator>
#include <limits>

#include "common/process/process_setup.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "ps_server/coordinator/report/run_summary.h"

namespace sluice {
namespace {

using nlohmann::json;

JobState State() {
  JobState state;
  state.version = Version(12);
  state.epoch = 1.5;
  state.counters.samples_applied = 768;
  state.loss = 0.25;
  state.learning_rate = 0.1;
  state.running = absl::Seconds(4);
  state.mean_staleness = 0.5;
  state.staleness_histogram = {3, 0, 9, 0};
  static_cast<GradientCounts&>(state.counters) = {12, 3, 2, 1, 0};
  return state;
}

Evaluation FinalEvaluation() {
  Evaluation evaluation;
  evaluation.version = Version(12);
  evaluation.loss = 0.5;
  evaluation.accuracy = 0.875;
  evaluation.samples = 64;
  evaluation.weights_sha256 = "abc";
  return evaluation;
}

TEST(MetricsLineTest, HoldsTheStateTheRatesAndTheCounts) {
  const json line = json::parse(MetricsLine(State(), {3, 192}, std::nullopt));
  EXPECT_EQ(line["seconds"], 4);
  EXPECT_EQ(line["epoch"], 1.5);
  EXPECT_EQ(line["version"], 12);
  EXPECT_EQ(line["loss"], 0.25);
  EXPECT_EQ(line["learning_rate"], 0.1);
  EXPECT_EQ(line["updates_per_second"], 3);
  EXPECT_EQ(line["samples_per_second"], 192);
  EXPECT_EQ(line["mean_staleness"], 0.5);
  EXPECT_EQ(line["staleness_histogram"], json::parse("[3, 0, 9]"));
  EXPECT_EQ(line["gradients"],
            json::parse(R"({"applied": 12, "cancelled": 3, "dropped": 2,
                            "rejected": 1, "lost": 0})"));
  EXPECT_FALSE(line.contains("test_loss"));
}

CheckpointState TwoWrittenOneFailed() {
  CheckpointState checkpoints;
  checkpoints.newest = Version(10);
  checkpoints.counters.written = 2;
  checkpoints.counters.failed = 1;
  checkpoints.last_error = "version 8: shard 1: No space left on device";
  return checkpoints;
}

TEST(MetricsLineTest, NamesWhatBecameOfCheckpointsWhereThereAreSome) {
  JobState state = State();
  EXPECT_FALSE(json::parse(MetricsLine(state, {}, std::nullopt))
                   .contains("checkpoints"));
  state.checkpoints = TwoWrittenOneFailed();
  const json line = json::parse(MetricsLine(state, {}, std::nullopt));
  EXPECT_EQ(line["checkpoints"]["newest_version"], 10);
  EXPECT_EQ(line["checkpoints"]["written"], 2);
  EXPECT_EQ(line["checkpoints"]["failed"], 1);
  EXPECT_EQ(line["checkpoints"]["late"], 0);
}

TEST(RunSummaryTest, NamesWhatBecameOfCheckpoints) {
  JobState state = State();
  EXPECT_TRUE(json::parse(RunSummary({}, state, {}))["checkpoints"].is_null());
  state.checkpoints = CheckpointState();
  EXPECT_TRUE(
      json::parse(RunSummary({}, state, {}))["checkpoints"]["newest_version"]
          .is_null());
  state.checkpoints = TwoWrittenOneFailed();
  const json summary = json::parse(RunSummary({}, state, {}))["checkpoints"];
  EXPECT_EQ(summary["last_error"],
            "version 8: shard 1: No space left on device");
  EXPECT_EQ(summary["newest_version"], 10);
}

TEST(MetricsLineTest, NamesTheVersionThatWasEvaluated) {
  Evaluation evaluation = FinalEvaluation();
  evaluation.version = Version(10);
  const json line = json::parse(MetricsLine(State(), {}, evaluation));
  EXPECT_EQ(line["test_version"], 10);
  EXPECT_EQ(line["test_loss"], 0.5);
  EXPECT_EQ(line["test_accuracy"], 0.875);
}

TEST(MetricsLineTest, ARegressionHasNoAccuracy) {
  Evaluation evaluation = FinalEvaluation();
  evaluation.accuracy.reset();
  const json line = json::parse(MetricsLine(State(), {}, evaluation));
  EXPECT_FALSE(line.contains("test_accuracy"));
}

TEST(MetricsLineTest, ATestLossThatIsNoNumberIsNullNotBrokenJson) {
  Evaluation evaluation = FinalEvaluation();
  evaluation.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(
      json::parse(MetricsLine(State(), {}, evaluation))["test_loss"].is_null());
  JobState state = State();
  state.final_evaluation = evaluation;
  EXPECT_TRUE(json::parse(RunSummary({}, state, {}))["test_loss"].is_null());
}

TEST(MetricsLineTest, LossesThatAreNoNumbersAreCounted) {
  JobState state = State();
  state.counters.losses_not_finite = 3;
  EXPECT_EQ(
      json::parse(MetricsLine(state, {}, std::nullopt))["losses_not_finite"],
      3);
  EXPECT_EQ(json::parse(RunSummary({}, state, {}))["losses_not_finite"], 3);
}

TEST(MetricsLineTest, HoldsWhatUsersProgramsLogWhereTheyDo) {
  JobState state = State();
  json line = json::parse(MetricsLine(state, {}, FinalEvaluation()));
  EXPECT_FALSE(line.contains("logged"));
  EXPECT_FALSE(line.contains("test_logged"));
  state.logged = {{"norm", 0.5}};
  Evaluation measured = FinalEvaluation();
  measured.logged = {{"f1", 0.25}};
  line = json::parse(MetricsLine(state, {}, measured));
  EXPECT_EQ(line["logged"], json::parse(R"({"norm": 0.5})"));
  EXPECT_EQ(line["test_logged"], json::parse(R"({"f1": 0.25})"));
  state.final_evaluation = measured;
  const json summary = json::parse(RunSummary({}, state, {}));
  EXPECT_EQ(summary["logged"], json::parse(R"({"norm": 0.5})"));
  EXPECT_EQ(summary["test_logged"], json::parse(R"({"f1": 0.25})"));
}

TEST(MetricsWriterTest, EveryLineIsThereAsSoonAsItIsWritten) {
  const std::string path = testing::TempDir() + "/metrics.jsonl";
  auto writer = MetricsWriter::Create(path);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Write("{}").ok());
  ASSERT_TRUE((*writer)->Write("[]").ok());
  std::ifstream in(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "{}\n[]\n");
}

TEST(MetricsWriterTest, AFolderThatIsMissingIsNamed) {
  EXPECT_EQ(MetricsWriter::Create("/nonexistent/m").status().message(),
            "/nonexistent/m: cannot be created: No such file or directory");
}

TEST(RunSummaryTest, HoldsTheFinalEvaluationAndTheCounts) {
  proto::Job job;
  job.mutable_sync()->set_policy(proto::K_SYNC);
  job.mutable_cluster()->set_workers(4);
  job.mutable_cluster()->set_shards(2);
  JobState state = State();
  state.final_evaluation = FinalEvaluation();
  state.counters.batches_left_out = 2;
  const json summary = json::parse(RunSummary(job, state, {"", "5 epochs"}));
  EXPECT_EQ(summary["batches_left_out"], 2);
  EXPECT_EQ(summary["test_accuracy"], 0.875);
  EXPECT_EQ(summary["test_loss"], 0.5);
  EXPECT_EQ(summary["version"], 12);
  EXPECT_EQ(summary["seconds"], 4);
  EXPECT_EQ(summary["samples_per_second"], 192);
  EXPECT_EQ(summary["weights_sha256"], "abc");
  EXPECT_EQ(summary["gradients"]["cancelled"], 3);
  EXPECT_EQ(summary["policy"], "K_SYNC");
  EXPECT_EQ(summary["workers"], 4);
  EXPECT_EQ(summary["shards"], 2);
  EXPECT_EQ(summary["reason"], "5 epochs");
  EXPECT_EQ(summary["failure"], "");
}

// As on a disk that is full for a while.
TEST(MetricsWriterTest, OfALineThatDoesNotFitNothingStays) {
  const std::string path = testing::TempDir() + "/too_long.jsonl";
  auto writer = MetricsWriter::Create(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Write("first").ok());
  SetUpProcess();  // As in the daemons.
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status written = (*writer)->Write("a second line");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(absl::IsUnavailable(written)) << written;
  EXPECT_TRUE((*writer)->Write("third").ok());
  std::ifstream in(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}),
            "first\nthird\n");
}

TEST(RunSummaryTest, AVersionThatWasOnlySavedHasADigestAndNoLoss) {
  JobState state = State();
  state.final_evaluation = FinalEvaluation();
  state.final_evaluation->samples = 0;
  const json summary = json::parse(RunSummary({}, state, {}));
  EXPECT_EQ(summary["weights_sha256"], "abc");
  EXPECT_TRUE(summary["test_loss"].is_null());
  EXPECT_TRUE(summary["test_accuracy"].is_null());
  EXPECT_TRUE(summary["test_version"].is_null());
}

TEST(RunSummaryTest, WhatTheWorkersTimeWentIntoAddsUpToAllOfIt) {
  const json summary = json::parse(
      RunSummary({}, State(), {}, WorkerSeconds{.applied = 6, .idle = 2}));
  EXPECT_EQ(summary["goodput"], 0.75);
  EXPECT_EQ(summary["worker_seconds"], 8);
  EXPECT_EQ(summary["worker_time"]["idle"], 0.25);
  double all = 0;
  for (const json& share : summary["worker_time"]) all += share.get<double>();
  EXPECT_EQ(all, 1);
  const json none = json::parse(RunSummary({}, State(), {}, WorkerSeconds{}));
  EXPECT_TRUE(none["goodput"].is_null()) << "no worker has had a task";
  EXPECT_EQ(none["worker_seconds"], 0);
  const json unknown = json::parse(RunSummary({}, State(), {}));
  EXPECT_TRUE(unknown["worker_seconds"].is_null());
}

TEST(RunSummaryTest, SaysWhatRecoveriesHaveCost) {
  JobState state = State();
  EXPECT_EQ(json::parse(RunSummary({}, state, {}))["updates_lost"], 0);
  state.generation = Generation(3);
  state.recovery = RecoveryState{Version(40), 17, "shard 1 restarted"};
  const json summary = json::parse(RunSummary({}, state, {}));
  EXPECT_EQ(summary["generation"], 3);
  EXPECT_EQ(summary["updates_lost"], 17);
}

TEST(RunSummaryTest, TheAccuracyIsTheFinalVersionsNeverAnEarlierOne) {
  JobState state = State();
  state.last_evaluation = FinalEvaluation();
  const json summary = json::parse(RunSummary({}, state, {"worker 1", ""}));
  EXPECT_TRUE(summary["test_accuracy"].is_null());
  EXPECT_EQ(summary["failure"], "worker 1");
}

}  // namespace
}  // namespace sluice
