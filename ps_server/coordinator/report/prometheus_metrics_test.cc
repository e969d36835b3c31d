#include "ps_server/coordinator/report/prometheus_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

proto::JobStatus StatusOf(int workers) {
  proto::JobStatus status;
  status.set_name("a \"job\"");
  status.set_version(7);
  (*status.mutable_counters())["samples"] = 640;
  (*status.mutable_counters())["gradients.applied"] = 20;
  (*status.mutable_counters())["gradients.lost"] = 1;
  for (int id = 0; id < workers; ++id) {
    proto::WorkerStatus* worker = status.add_worker();
    worker->set_id(id);
    worker->set_state(id == 0 ? "dead" : "computing");
    (*worker->mutable_counters())["compute_microseconds_total"] = 1500000;
    (*worker->mutable_counters())["certificate_seconds_left"] = 60;
  }
  proto::ShardStatus* shard = status.add_shard();
  shard->set_id(1);
  (*shard->mutable_counters())["pulls_served"] = 3;
  return status;
}

std::string MetricsOf(const proto::JobStatus& status) {
  WorkerSums sums;
  return PrometheusMetrics(status, &sums);
}

std::vector<std::string> LinesOf(const proto::JobStatus& status) {
  return absl::StrSplit(MetricsOf(status), '\n');
}

TEST(PrometheusMetricsTest, NamesCountersByOneRule) {
  const auto lines = LinesOf(StatusOf(2));
  EXPECT_THAT(lines, Contains("sluice_samples_total 640"));
  EXPECT_THAT(lines, Contains("# TYPE sluice_gradients_total counter"));
  EXPECT_THAT(lines,
              Contains("sluice_gradients_total{outcome=\"applied\"} 20"));
  EXPECT_THAT(lines, Contains("sluice_gradients_total{outcome=\"lost\"} 1"));
  EXPECT_THAT(
      lines, Contains("sluice_worker_compute_seconds_total{worker=\"1\"} 1.5"));
  EXPECT_THAT(lines,
              Contains("sluice_shard_pulls_served_total{shard=\"1\"} 3"));
  EXPECT_THAT(
      lines,
      Contains("sluice_worker_certificate_expires_seconds{worker=\"0\"} 60"));
  EXPECT_THAT(lines, Contains("sluice_workers{state=\"computing\"} 1"));
  EXPECT_THAT(lines, Contains("sluice_workers{state=\"dead\"} 1"));
  EXPECT_THAT(lines, Contains("sluice_version 7"));
}

TEST(PrometheusMetricsTest, BeforeTheFirstRecoveryNoUpdateIsLost) {
  EXPECT_THAT(MetricsOf(proto::JobStatus()),
              HasSubstr("\nsluice_updates_lost_total 0\n"));
}

TEST(PrometheusMetricsTest, HasOneFamilyOfAName) {
  const std::string text = MetricsOf(StatusOf(3));
  const std::string type = "# TYPE sluice_worker_compute_seconds_total";
  EXPECT_EQ(text.find(type), text.rfind(type));
  EXPECT_THAT(text, HasSubstr(type));
}

TEST(PrometheusMetricsTest, QuotesWhatALabelHolds) {
  EXPECT_THAT(MetricsOf(StatusOf(1)), HasSubstr("job=\"a \\\"job\\\"\""));
}

TEST(PrometheusMetricsTest, WhoHasNeverJoinedHasNotJustBeenHeard) {
  proto::JobStatus status = StatusOf(2);
  status.mutable_worker(1)->set_state("missing");
  EXPECT_THAT(LinesOf(status),
              Contains("sluice_worker_last_heard_seconds{worker=\"0\"} 0"));
  EXPECT_THAT(LinesOf(status),
              Contains("sluice_shard_last_heard_seconds{shard=\"1\"} 0"));
  status.mutable_shard(0)->set_state("missing");
  EXPECT_THAT(LinesOf(status),
              Not(Contains(HasSubstr("worker_last_heard_seconds{worker=\"1"))));
  EXPECT_THAT(LinesOf(status),
              Not(Contains(HasSubstr("shard_last_heard_seconds"))));
}

TEST(PrometheusMetricsTest, ManyWorkersAreSums) {
  const int many = kMostLabelledWorkers + 1;
  const auto lines = LinesOf(StatusOf(many));
  EXPECT_THAT(lines, Contains(absl::StrCat(
                         "sluice_worker_compute_seconds_total ", 1.5 * many)));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("worker=\""))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("worker_certificate"))));
  EXPECT_THAT(LinesOf(StatusOf(kMostLabelledWorkers)),
              Contains(HasSubstr("worker=\"99\"")));
}

TEST(PrometheusMetricsTest, ASumDoesNotFallWhenAWorkerIsStartedAgain) {
  const int many = kMostLabelledWorkers + 1;
  WorkerSums sums;
  proto::JobStatus status = StatusOf(many);
  const auto expect = [&](double seconds) {
    EXPECT_THAT(PrometheusMetrics(status, &sums),
                HasSubstr(absl::StrCat("\nsluice_worker_compute_seconds_total ",
                                       seconds, "\n")));
  };
  auto& counters = *status.mutable_worker(7)->mutable_counters();
  expect(1.5 * many);
  counters.clear();  // It has joined and not said yet what it has counted.
  expect(1.5 * many);
  counters["compute_microseconds_total"] = 250'000;
  expect(1.5 * many + 0.25);
  counters["compute_microseconds_total"] = 500'000;
  expect(1.5 * many + 0.5);
}

TEST(PrometheusMetricsTest, OfAWorkerWithEverOtherCountersTheFirstAreKept) {
  WorkerSums sums;
  proto::JobStatus status = StatusOf(1);
  auto& counters = *status.mutable_worker(0)->mutable_counters();
  for (int i = 0; i < 1000; ++i) {
    counters.clear();
    counters[absl::StrCat("invented_", i, "_total")] = 1;
    sums.Look(status);
  }
  EXPECT_EQ(sums.Sums().size(), WorkerSums::kMostCounters);
}

TEST(PrometheusMetricsTest, TheTimesOfAPhaseAreAHistogramInSeconds) {
  proto::JobStatus status;
  proto::TaskTime* time = status.add_task_time();
  time->set_phase("pull");
  time->set_seconds(0.25);
  for (int count : {4, 3, 0, 1}) time->add_histogram(count);
  const auto lines = LinesOf(status);
  const auto has = [&](const std::string& line) {
    EXPECT_THAT(lines, Contains(absl::StrCat("sluice_task_seconds_", line)));
  };
  has("bucket{phase=\"pull\",le=\"0.001\"} 4");
  has("bucket{phase=\"pull\",le=\"0.002\"} 7");
  has("bucket{phase=\"pull\",le=\"0.004\"} 7");
  has("bucket{phase=\"pull\",le=\"+Inf\"} 8");
  has("count{phase=\"pull\"} 8");
  has("sum{phase=\"pull\"} 0.25");
}

TEST(PrometheusMetricsTest, StalenessIsAHistogramWithoutABoundAtItsEnd) {
  proto::JobStatus status;
  for (int count : {4, 3, 0, 2, 1}) status.add_staleness_histogram(count);
  status.set_mean_staleness(1.5);
  const auto lines = LinesOf(status);
  EXPECT_THAT(lines, Contains("sluice_staleness_versions_bucket{le=\"0\"} 4"));
  EXPECT_THAT(lines, Contains("sluice_staleness_versions_bucket{le=\"2\"} 7"));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("le=\"4\""))));
  EXPECT_THAT(lines,
              Contains("sluice_staleness_versions_bucket{le=\"+Inf\"} 10"));
  EXPECT_THAT(lines, Contains("sluice_staleness_versions_count 10"));
  EXPECT_THAT(lines, Contains("sluice_staleness_versions_sum 15"));
}

}  // namespace
}  // namespace sluice
