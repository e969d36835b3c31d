#include "ps_server/coordinator/report/prometheus_metrics.h"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/http/prometheus_text.h"
#include "common/telemetry/counter_table.h"
#include "common/tls/certificate_counter.h"
#include "ps_server/coordinator/core/counters.h"
#include "ps_server/coordinator/core/task_times.h"

namespace sluice {
namespace {

template <typename Counters, size_t n>
void AddCounters(const CounterRow<Counters> (&table)[n],
                 const proto::JobStatus& status, PrometheusText* metrics) {
  for (const CounterRow<Counters>& row : table) {
    const auto counted = status.counters().find(row.name);
    if (counted == status.counters().end()) continue;
    const bool by_outcome = absl::StrContains(row.name, '.');
    const std::string family = absl::StrCat(
        static_cast<std::vector<std::string>>(absl::StrSplit(row.name, '.'))[0],
        ", by outcome");
    metrics->TableCounter("", row.name, by_outcome ? family : row.help,
                          counted->second);
  }
}

void AddWorkers(const proto::JobStatus& status, const WorkerSums& sums,
                PrometheusText* metrics) {
  const bool many = status.worker_size() > kMostLabelledWorkers;
  std::map<std::string, int> states;
  for (const proto::WorkerStatus& worker : status.worker()) {
    ++states[worker.state()];
    if (many) continue;
    const std::string id = absl::StrCat(worker.id());
    if (worker.state() != "missing") {  // Else it was never heard.
      metrics->Gauge("worker_last_heard_seconds",
                     "Seconds since the worker was last heard",
                     worker.last_heard_s(), {{"worker", id}});
    }
    metrics->ProcessCounters(
        "worker", id, {worker.counters().begin(), worker.counters().end()});
  }
  if (many) metrics->ProcessCounters("worker", "", sums.Sums());
  for (const auto& [state, count] : states) {
    metrics->Gauge("workers", "Workers, by state", count, {{"state", state}});
  }
}

void AddShards(const proto::JobStatus& status, PrometheusText* metrics) {
  std::map<std::string, int> states;
  for (const proto::ShardStatus& shard : status.shard()) {
    ++states[shard.state()];
    const std::string id = absl::StrCat(shard.id());
    metrics->Gauge("shard_version", "The newest version that the shard holds",
                   static_cast<double>(shard.version()), {{"shard", id}});
    if (shard.state() != "missing") {
      metrics->Gauge("shard_last_heard_seconds",
                     "Seconds since the shard was last heard",
                     shard.last_heard_s(), {{"shard", id}});
    }
    metrics->ProcessCounters(
        "shard", id, {shard.counters().begin(), shard.counters().end()});
  }
  for (const auto& [state, count] : states) {
    metrics->Gauge("shards", "Shards, by state", count, {{"state", state}});
  }
}

// Counts `bins`, of which `bound` says the largest value, into `out`; nullopt:
// the bin goes into the next bucket. What is in the last one has no bound.
void Fill(const google::protobuf::RepeatedField<int64_t>& bins,
          absl::FunctionRef<std::optional<double>(int bin)> bound,
          prometheus::ClientMetric::Histogram* out) {
  for (int i = 0; i < bins.size(); ++i) {
    out->sample_count += static_cast<uint64_t>(bins[i]);
    const std::optional<double> most = bound(i);
    if (most.has_value() && i + 1 < bins.size()) {
      out->bucket.push_back({out->sample_count, *most});
    }
  }
}

void AddStaleness(const proto::JobStatus& status, PrometheusText* metrics) {
  prometheus::ClientMetric::Histogram& histogram = metrics->Histogram(
      "staleness_versions", "Applied gradients by staleness");
  const auto bound = [](int i) -> std::optional<double> {
    if ((i & (i - 1)) != 0) return std::nullopt;
    return i;  // 0, 1, 2, 4, 8 ...
  };
  Fill(status.staleness_histogram(), bound, &histogram);
  histogram.sample_sum =
      status.mean_staleness() * static_cast<double>(histogram.sample_count);
}

void AddTaskTimes(const proto::JobStatus& status, PrometheusText* metrics) {
  for (const proto::TaskTime& time : status.task_time()) {
    prometheus::ClientMetric::Histogram& histogram = metrics->Histogram(
        "task_seconds", "Tasks whose gradients came, by how long a phase took",
        {{"phase", time.phase()}});
    Fill(time.histogram(), PhaseTimes::Bound, &histogram);
    histogram.sample_sum = time.seconds();
  }
}

void AddTraining(const proto::JobStatus& status, PrometheusText* metrics) {
  metrics->Gauge("run_info", "What runs", 1,
                 {{"job", status.name()},
                  {"run_id", status.run_id()},
                  {"policy", status.policy()},
                  {"phase", status.phase()}});
  metrics->Gauge("version", "Updates that are decided",
                 static_cast<double>(status.version()));
  metrics->Gauge("generation", "Generation of the run: recoveries plus 1",
                 static_cast<double>(status.generation()));
  metrics->Gauge("epochs", "Samples applied, in epochs", status.epoch());
  metrics->Gauge("progress_ratio", "Share of the run done", status.progress());
  metrics->Gauge("running_seconds",
                 "Seconds since the first task, without what was rolled back",
                 status.seconds());
  metrics->Gauge("loss", "Training loss, smoothed", status.loss());
  metrics->Gauge("learning_rate", "Of the last update", status.learning_rate());
  metrics->Gauge("waiting_seconds",
                 "For how long the run has waited for somebody; 0: it does not",
                 status.waiting_s());
  if (status.has_test_loss()) {
    metrics->Gauge("test_loss", "Of the last evaluation", status.test_loss());
  }
  if (status.has_test_accuracy()) {
    metrics->Gauge("test_accuracy_ratio", "Of the last evaluation",
                   status.test_accuracy());
  }
  const std::map<std::string, double> logged(status.logged().begin(),
                                             status.logged().end());
  for (const auto& [name, value] : logged) {
    metrics->Gauge("logged", "What users' programs log, smoothed", value,
                   {{"name", name}});
  }
  if (status.has_checkpoint() && status.checkpoint().has_newest_version()) {
    metrics->Gauge("checkpoint_version", "Of the newest whole checkpoint",
                   static_cast<double>(status.checkpoint().newest_version()));
  }
  metrics->Counter("updates_lost_total", "Updates rolled back by recoveries",
                   static_cast<double>(status.recovery().updates_lost()));
  if (status.has_certificate_expires_s()) {
    metrics->Gauge("certificate_expires_seconds",
                   "Seconds until the first certificate expires",
                   status.certificate_expires_s());
  }
}

}  // namespace

void WorkerSums::Look(const proto::JobStatus& status) {
  for (const proto::WorkerStatus& worker : status.worker()) {
    CounterMap& last = last_[worker.id()];
    for (const auto& [name, value] : worker.counters()) {
      // The time left of certificates has no sum; the first to expire is a
      // metric of its own.
      if (name == kCertificateSecondsLeft) continue;
      if (last.size() >= kMostCounters && last.count(name) == 0) continue;
      if (value < last[name]) past_[name] += last[name];
      last[name] = value;
    }
  }
}

CounterMap WorkerSums::Sums() const {
  CounterMap sums = past_;
  for (const auto& [worker, counters] : last_) {
    for (const auto& [name, value] : counters) sums[name] += value;
  }
  return sums;
}

std::string PrometheusMetrics(const proto::JobStatus& status,
                              WorkerSums* sums) {
  sums->Look(status);
  PrometheusText metrics;
  AddTraining(status, &metrics);
  AddCounters(kRunCounters, status, &metrics);
  AddCounters(kCheckpointCounters, status, &metrics);
  AddStaleness(status, &metrics);
  AddTaskTimes(status, &metrics);
  AddWorkers(status, *sums, &metrics);
  AddShards(status, &metrics);
  return metrics.Text();
}

}  // namespace sluice
