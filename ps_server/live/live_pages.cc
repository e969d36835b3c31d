// Pages for people and for Prometheus, from two sources: the coordinator's
// status, asked anew for each answer, and the run folder's files, which are
// read on (Follow) under a lock, since two browsers may ask at once.
//
//   /                the page; asks /api/state?since=VERSION every second
//   /api/state       status, the points of metrics.jsonl since, tasks
//   /metrics         the status as Prometheus wants it
//   /healthz         the process answers
//   /readyz          503 with who is missing, until all are there
#include "ps_server/live/live_pages.h"

#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/http/prometheus_text.h"
#include "common/json_text.h"
#include "common/version.h"
#include "nlohmann/json.hpp"
#include "ps_server/coordinator/report/prometheus_metrics.h"
#include "ps_server/coordinator/report/status_json.h"
#include "ps_server/live/metrics_history.h"
#include "ps_server/live/page_files.h"
#include "ps_server/live/task_history.h"

namespace sluice {
namespace {

using StatusSource = std::function<absl::StatusOr<proto::JobStatus>()>;

HttpAnswer Unavailable(const absl::Status& why) {
  return {.code = 503, .body = absl::StrCat(why.message(), "\n")};
}

HttpPage File(const char* type, absl::string_view bytes) {
  return [type, bytes](const HttpArguments&) {
    return HttpAnswer{.type = type, .body = std::string(bytes)};
  };
}

// As Prometheus gets it: of a large cluster, counters of each worker are most
// of what there is to say, and nobody looks at them.
void LeaveOutCounters(proto::JobStatus* status) {
  if (status->worker_size() <= kMostLabelledWorkers) return;
  for (proto::WorkerStatus& worker : *status->mutable_worker()) {
    worker.clear_counters();
  }
}

HttpAnswer State(absl::StatusOr<proto::JobStatus> status,
                 const nlohmann::ordered_json& points,
                 const nlohmann::ordered_json& time) {
  nlohmann::ordered_json state = {{"sluice", kVersion},
                                  {"status", nullptr},
                                  {"error", nullptr},
                                  {"points", points},
                                  {"time", time}};
  if (status.ok()) {
    LeaveOutCounters(&*status);
    state["status"] = StatusAsJson(*status);
  } else {
    state["error"] = status.status().message();
  }
  return {.type = "application/json", .body = JsonText(state) + "\n"};
}

bool IsThere(const std::string& state) {
  return state == "computing" || state == "waiting" || state == "serving" ||
         state == "left";
}

HttpAnswer Ready(const proto::JobStatus& status) {
  if (status.phase() == "finished") return {.body = "finished\n"};
  std::string lacks;
  for (const proto::ShardStatus& shard : status.shard()) {
    if (IsThere(shard.state())) continue;
    absl::StrAppend(&lacks, "shard ", shard.id(), " is ", shard.state(), "\n");
  }
  for (const proto::WorkerStatus& worker : status.worker()) {
    if (IsThere(worker.state())) continue;
    absl::StrAppend(&lacks, "worker ", worker.id(), " is ", worker.state(),
                    "\n");
  }
  if (lacks.empty()) return {.body = "ready\n"};
  return {.code = 503, .body = lacks};
}

}  // namespace

std::map<std::string, HttpPage> LivePages(StatusSource status,
                                          const std::string& run_dir) {
  struct Files {
    explicit Files(const std::string& run_dir)
        : metrics(run_dir.empty() ? ""
                                  : absl::StrCat(run_dir, "/metrics.jsonl")),
          tasks(run_dir) {}
    absl::Mutex mu;
    MetricsHistory metrics ABSL_GUARDED_BY(mu);
    TaskHistory tasks ABSL_GUARDED_BY(mu);
  };
  const auto files = std::make_shared<Files>(run_dir);
  std::map<std::string, HttpPage> pages;
  pages["/"] = File("text/html; charset=utf-8", kPageHtml);
  pages["/page.css"] = File("text/css; charset=utf-8", kPageCss);
  pages["/page.js"] = File("text/javascript; charset=utf-8", kPageJs);
  pages["/chart.js"] = File("text/javascript; charset=utf-8", kChartJs);
  pages["/api/state"] = [status, files](const HttpArguments& arguments) {
    int64_t since = 0;
    const std::string argument = arguments("since");
    if (!argument.empty() && !absl::SimpleAtoi(argument, &since)) {
      return HttpAnswer{
          .code = 400,
          .body = absl::StrCat("since: expected a number, came \"", argument,
                               "\"\n")};
    }
    absl::StatusOr<proto::JobStatus> now = status();
    absl::MutexLock lock(&files->mu);
    files->metrics.Follow();
    files->tasks.Follow();
    return State(std::move(now), files->metrics.Since(since),
                 files->tasks.Json());
  };
  pages["/metrics"] = [status](const HttpArguments&) {
    const auto now = status();
    if (!now.ok()) return Unavailable(now.status());
    return HttpAnswer{.type = kPrometheusType, .body = PrometheusMetrics(*now)};
  };
  pages["/healthz"] = [](const HttpArguments&) {
    return HttpAnswer{.body = "ok\n"};
  };
  pages["/readyz"] = [status](const HttpArguments&) {
    const auto now = status();
    return now.ok() ? Ready(*now) : Unavailable(now.status());
  };
  return pages;
}

}  // namespace sluice
