#include "cli/report/goodput.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "ps_server/coordinator/log/generations.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

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

WorkerSeconds Goodput::Total() const { return SumOf(workers); }

double Goodput::share() const {
  const WorkerSeconds total = Total();
  return total.Total() > 0 ? total.applied / total.Total() : 0;
}

Goodput MeasureGoodput(const std::vector<CommitLog>& logs) {
  std::vector<proto::LogHeader> headers;
  for (const CommitLog& log : logs) headers.push_back(log.header);
  const std::vector<std::optional<Version>> kept = KeptVersions(headers);
  Goodput goodput;
  goodput.generations = static_cast<int64_t>(logs.size());
  WorkerTime time;
  for (size_t i = 0; i < logs.size(); ++i) {
    const CommitLog& log = logs[i];
    if (log.torn.has_value()) goodput.torn.push_back(*log.torn);
    time.Begin(log.header, kept[i]);
    goodput.version = Version(log.header.restored_version());
    for (const proto::LogRecord& record : log.records) {
      time.Read(record);
      if (record.has_commit()) {
        goodput.version = Version(record.commit().version());
      }
    }
  }
  goodput.workers = time.Seconds();
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
