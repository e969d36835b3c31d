// Pages for people and for Prometheus, from two sources: the coordinator's
// status, asked anew for each answer, and the run folder's files, which a
// thread of their own reads on whenever somebody asks. One thread answers all
// pages, and a run folder may stall for an hour: an answer never waits for it
// for longer than `most_wait`, and of all in one stall only the first waits at
// all.
//
//   browser   /api/state     the thread is asked to read on, and stalls
//             0.5 s later    answered with what had been read before
//   browser   /api/state     it still reads: answered at once, with the same
//   kubelet   /healthz       the same
//
//   /                the page; asks /api/state?since=VERSION every second
//   /api/state       status, the points of metrics.jsonl since, tasks
//   /metrics         the status as Prometheus wants it
//   /healthz         the process answers
//   /readyz          503 with who is missing, until all are there
#include "ps_server/live/live_pages.h"

#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/await_for.h"
#include "common/http/prometheus_text.h"
#include "common/process/named_thread.h"
#include "common/telemetry/json_text.h"
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

// What the files of a run folder hold, as far as they have been read.
struct FilesRead {
  MetricsHistory metrics;
  nlohmann::ordered_json time;
};

// Reads them on. Thread-safe.
class RunFolder {
 public:
  RunFolder(const std::string& run_dir, absl::Duration most_wait)
      : most_wait_(most_wait),
        metrics_(run_dir.empty() ? ""
                                 : absl::StrCat(run_dir, "/metrics.jsonl")),
        tasks_(run_dir),
        read_(std::make_shared<FilesRead>(FilesRead{metrics_, tasks_.Json()})),
        thread_(StartThread("live-files", [this] { Loop(); })) {}
  // Waits until what is being read has been.
  ~RunFolder() {
    {
      absl::MutexLock lock(&mu_);
      closing_ = true;
    }
    thread_.join();
  }

  // Reads what has been appended since, unless that takes longer than
  // `most_wait`; then it goes on, and this returns what had been read before.
  std::shared_ptr<const FilesRead> Follow() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (!std::exchange(asked_, true)) {
      AwaitFor(&mu_, absl::Condition(this, &RunFolder::Answered), most_wait_);
    }
    return read_;
  }

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mu_) {
    while (true) {
      {
        absl::MutexLock lock(&mu_);
        mu_.Await(absl::Condition(this, &RunFolder::AskedOrClosing));
        if (closing_) return;
      }
      metrics_.Follow();
      tasks_.Follow();
      auto read =
          std::make_shared<FilesRead>(FilesRead{metrics_, tasks_.Json()});
      absl::MutexLock lock(&mu_);
      read_ = std::move(read);
      asked_ = false;
    }
  }
  bool Answered() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !asked_; }
  bool AskedOrClosing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return asked_ || closing_;
  }

  const absl::Duration most_wait_;

  // Used by `thread_`.
  MetricsHistory metrics_;
  TaskHistory tasks_;

  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  // To read on; until it has.
  bool asked_ ABSL_GUARDED_BY(mu_) = false;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<const FilesRead> read_ ABSL_GUARDED_BY(mu_);

  std::thread thread_;  // Joined by the destructor.
};

// What Prometheus gets. Thread-safe.
class Metrics {
 public:
  HttpAnswer Of(const proto::JobStatus& status) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return {.type = kPrometheusType, .body = PrometheusMetrics(status, &sums_)};
  }

 private:
  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  WorkerSums sums_ ABSL_GUARDED_BY(mu_);
};

bool IsThere(const std::string& state) {
  return state == "computing" || state == "waiting" || state == "serving";
}

HttpAnswer Ready(const proto::JobStatus& status) {
  if (status.phase() == "finished") return {.body = "finished\n"};
  if (status.phase() == "failed") {
    return {.code = 503, .body = absl::StrCat(status.message(), "\n")};
  }
  std::string lacks;
  for (const proto::ShardStatus& shard : status.shard()) {
    if (IsThere(shard.state())) continue;
    absl::StrAppend(&lacks, "shard ", shard.id(), " is ", shard.state(), "\n");
  }
  for (const proto::WorkerStatus& worker : status.worker()) {
    if (worker.extra() || IsThere(worker.state())) continue;
    absl::StrAppend(&lacks, "worker ", worker.id(), " is ", worker.state(),
                    "\n");
  }
  if (lacks.empty()) return {.body = "ready\n"};
  return {.code = 503, .body = lacks};
}

}  // namespace

std::map<std::string, HttpPage> LivePages(StatusSource status,
                                          const std::string& run_dir,
                                          absl::Duration most_wait) {
  const auto folder = std::make_shared<RunFolder>(run_dir, most_wait);
  std::map<std::string, HttpPage> pages;
  pages["/"] = File("text/html; charset=utf-8", kPageHtml);
  pages["/page.css"] = File("text/css; charset=utf-8", kPageCss);
  pages["/page.js"] = File("text/javascript; charset=utf-8", kPageJs);
  pages["/chart.js"] = File("text/javascript; charset=utf-8", kChartJs);
  pages["/api/state"] = [status, folder](const HttpArguments& arguments) {
    int64_t since = 0;
    const std::string argument = arguments("since");
    if (!argument.empty() && !absl::SimpleAtoi(argument, &since)) {
      return HttpAnswer{
          .code = 400,
          .body = absl::StrCat("since: expected a number, came \"", argument,
                               "\"\n")};
    }
    absl::StatusOr<proto::JobStatus> now = status();
    const auto read = folder->Follow();
    return State(std::move(now), read->metrics.Since(since), read->time);
  };
  const auto metrics = std::make_shared<Metrics>();
  pages["/metrics"] = [status, metrics](const HttpArguments&) {
    const auto now = status();
    return now.ok() ? metrics->Of(*now) : Unavailable(now.status());
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
