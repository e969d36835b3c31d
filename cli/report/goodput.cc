// Every second of a worker has one cause (kTimeCauses), so the shares of a row
// add up to 100%; in short, the largest loss comes first:
//
//   worker      seconds    applied  cancelled  ...       idle     absent
//   0             10.00      88.0%       2.0%           10.0%       0.0%
//
//   goodput 88.0% (idle 10.0%, cancelled 2.0%)
#include "cli/report/goodput.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/telemetry/json_text.h"
#include "nlohmann/json.hpp"

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

std::string GoodputInShort(const WorkerSeconds& time) {
  constexpr double kLeastShare = 0.0005;  // What "0.1%" may stand for.
  const double total = time.Total();
  if (!(total > 0)) return "";
  std::vector<std::pair<double, const char*>> causes;
  for (const TimeCause& cause : kTimeCauses) {
    const double share = time.*cause.seconds / total;
    if (cause.seconds == &WorkerSeconds::applied || share < kLeastShare) {
      continue;
    }
    causes.push_back({share, cause.name});
  }
  std::stable_sort(
      causes.begin(), causes.end(),
      [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text =
      absl::StrFormat("goodput %.1f%%", 100 * time.applied / total);
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
  return JsonText(json, 2) + "\n";
}

}  // namespace sluice
