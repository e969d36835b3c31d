// A worker's time in one generation is cut at each task's beginning, and each
// piece once more where the task's gradient was ready or the task ended:
//
//   issued     ready      issued   worker dies      issued    the log ends
//     |--applied--|--idle--|---lost---|----absent-----|--unfinished--|
//     life 1               life 1                     life 2
//
// So the pieces cover the time from the first task on, and none overlap.
#include "cli/report/goodput.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/log/generations.h"
#include "ps_server/coordinator/log/ledger.h"
#include "ps_server/coordinator/log/task_spans.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// A generation, and how much of it the newest one rests on.
struct Kept {
  bool newest = false;
  size_t records = 0;  // From the log's first one on.
};

// The records up to the commit of `version`; none if it made no such version.
size_t RecordsUpTo(Version version, const CommitLog& log) {
  for (size_t i = 0; i < log.records.size(); ++i) {
    const proto::LogRecord& record = log.records[i];
    if (record.has_commit() && record.commit().version() == version.value()) {
      return i + 1;
    }
  }
  return 0;
}

double WorkerSeconds::*CauseOf(const TaskSpan& task, const Kept& kept) {
  if (task.outcome == proto::OUTCOME_UNSPECIFIED) {
    return kept.newest ? &WorkerSeconds::unfinished : &WorkerSeconds::lost;
  }
  if (task.worker_lost || task.ended_at > kept.records) {
    return &WorkerSeconds::lost;
  }
  switch (task.outcome) {
    case proto::APPLIED:
      return &WorkerSeconds::applied;
    case proto::CANCELLED:
      return &WorkerSeconds::cancelled;
    case proto::DROPPED:
    case proto::REJECTED:
      return &WorkerSeconds::dropped;
    default:
      return &WorkerSeconds::lost;
  }
}

// Adds the time of a worker that had `tasks` in a generation whose log goes on
// until `end`.
void AddTime(const std::vector<TaskSpan>& tasks, double end, const Kept& kept,
             WorkerSeconds* time) {
  for (size_t i = 0; i < tasks.size(); ++i) {
    const TaskSpan& task = tasks[i];
    const TaskSpan* next = i + 1 < tasks.size() ? &tasks[i + 1] : nullptr;
    const double until = next == nullptr ? end : next->issued;
    const double computed = std::min(task.computed, until);
    time->*CauseOf(task, kept) += computed - task.issued;
    if (next != nullptr && next->incarnation != task.incarnation) {
      time->absent += until - computed;
    } else if (next != nullptr || !task.worker_lost) {
      time->idle += until - computed;
    }
  }
}

std::string Row(const std::string& name, const WorkerSeconds& time) {
  const double total = time.Total();
  std::string row = absl::StrFormat("%-6s %12.2f", name, total);
  for (const TimeCause& cause : kTimeCauses) {
    absl::StrAppendFormat(&row, " %9.1f%%",
                          total > 0 ? 100 * time.*cause.seconds / total : 0);
  }
  return row + "\n";
}

Json TimeJson(const WorkerSeconds& time) {
  Json seconds = Json::object();
  for (const TimeCause& cause : kTimeCauses) {
    seconds[cause.name] = time.*cause.seconds;
  }
  return {{"worker_seconds", time.Total()}, {"seconds", seconds}};
}

}  // namespace

double WorkerSeconds::Total() const {
  double total = 0;
  for (const TimeCause& cause : kTimeCauses) total += this->*cause.seconds;
  return total;
}

WorkerSeconds Goodput::Total() const {
  WorkerSeconds total;
  for (const auto& [worker, time] : workers) {
    for (const TimeCause& cause : kTimeCauses) {
      total.*cause.seconds += time.*cause.seconds;
    }
  }
  return total;
}

double Goodput::share() const {
  const WorkerSeconds total = Total();
  return total.Total() > 0 ? total.applied / total.Total() : 0;
}

Goodput MeasureGoodput(const std::vector<CommitLog>& logs) {
  Goodput goodput;
  const Ledger ledger = BalanceLogs(logs, {});
  goodput.version = ledger.version;
  goodput.generations = static_cast<int64_t>(logs.size());
  for (size_t i = 0; i < logs.size(); ++i) {
    const CommitLog& log = logs[i];
    if (log.torn.has_value()) goodput.torn.push_back(*log.torn);
    if (log.records.empty()) continue;
    Kept kept;
    kept.newest = i + 1 == logs.size();
    kept.records = kept.newest ? log.records.size()
                               : RecordsUpTo(ledger.generations[i].kept, log);
    const double end = log.records.back().seconds();
    for (const auto& [worker, tasks] : TaskSpansOf(log, /*origin=*/0)) {
      AddTime(tasks, end, kept, &goodput.workers[worker]);
    }
  }
  return goodput;
}

absl::StatusOr<Goodput> ReadRunGoodput(const std::string& run_dir) {
  std::error_code error;
  if (!std::filesystem::is_directory(run_dir, error)) {
    return absl::NotFoundError(
        absl::StrCat(run_dir, ": is no folder, expected that of a run"));
  }
  SLUICE_ASSIGN_OR_RETURN(const AllGenerations all,
                          ReadAllGenerations(run_dir));
  return MeasureGoodput(all.logs);
}

std::string DescribeGoodput(const Goodput& goodput) {
  std::string text = absl::StrFormat("%-6s %12s", "worker", "seconds");
  for (const TimeCause& cause : kTimeCauses) {
    absl::StrAppendFormat(&text, " %10s", cause.name);
  }
  text += "\n";
  for (const auto& [worker, time] : goodput.workers) {
    text += Row(absl::StrCat(worker), time);
  }
  const WorkerSeconds total = goodput.Total();
  text += Row("all", total);
  for (const TornTail& tail : goodput.torn) {
    absl::StrAppend(&text, tail.ToString(), "\n");
  }
  if (goodput.workers.empty()) return text + "no worker has had a task\n";
  absl::StrAppendFormat(
      &text,
      "goodput %.1f%%: %.2f of %.2f worker-seconds are in the weights of "
      "version %d\n",
      100 * goodput.share(), total.applied, total.Total(),
      goodput.version.value());
  return text;
}

std::string GoodputInShort(const Goodput& goodput) {
  constexpr double kLeastShare = 0.0005;  // What "0.1%" may stand for.
  const WorkerSeconds total = goodput.Total();
  if (!(total.Total() > 0)) return "";
  std::vector<std::pair<double, const char*>> causes;
  for (const TimeCause& cause : kTimeCauses) {
    const double share = total.*cause.seconds / total.Total();
    if (cause.seconds == &WorkerSeconds::applied || share < kLeastShare) {
      continue;
    }
    causes.push_back({share, cause.name});
  }
  std::stable_sort(
      causes.begin(), causes.end(),
      [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text = absl::StrFormat("goodput %.1f%%", 100 * goodput.share());
  if (causes.empty()) return text;
  return absl::StrCat(text, " (",
                      absl::StrJoin(causes, ", ",
                                    [](std::string* out, const auto& cause) {
                                      absl::StrAppendFormat(out, "%s %.1f%%",
                                                            cause.second,
                                                            100 * cause.first);
                                    }),
                      ")");
}

std::string GoodputJson(const Goodput& goodput) {
  Json json = {{"goodput", nullptr},
               {"version", goodput.version.value()},
               {"generations", goodput.generations}};
  const WorkerSeconds total = goodput.Total();
  if (total.Total() > 0) json["goodput"] = goodput.share();
  json.update(TimeJson(total));
  Json workers = Json::array();
  for (const auto& [worker, time] : goodput.workers) {
    Json one = {{"worker", worker}};
    one.update(TimeJson(time));
    workers.push_back(one);
  }
  json["workers"] = workers;
  Json torn = Json::array();
  for (const TornTail& tail : goodput.torn) {
    torn.push_back(
        {{"file", tail.path}, {"offset", tail.offset}, {"bytes", tail.bytes}});
  }
  json["torn"] = torn;
  return json.dump(2) + "\n";
}

}  // namespace sluice
