#include "cli/report/run_result.h"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/launch/progress.h"
#include "cli/report/goodput.h"
#include "cli/report/notable_counters.h"
#include "common/counter_json.h"
#include "common/counter_table.h"

namespace sluice {
namespace {

using nlohmann::json;

// A number of the summary; NaN if it has none, as accuracy of a regression.
double Number(const json& summary, const char* name) {
  const auto found = summary.find(name);
  if (found == summary.end() || !found->is_number()) return std::nan("");
  return found->get<double>();
}

std::string Text(const json& summary, const char* name) {
  const auto found = summary.find(name);
  if (found == summary.end() || !found->is_string()) return "";
  return found->get<std::string>();
}

std::string DescribeTest(const json& summary) {
  std::string text;
  const double accuracy = Number(summary, "test_accuracy");
  const double loss = Number(summary, "test_loss");
  const double version = Number(summary, "version");
  if (!std::isnan(accuracy)) {
    absl::StrAppendFormat(
        &text, "test accuracy %.4f (whole test split, version %.0f)\n",
        accuracy, version);
  }
  if (!std::isnan(loss)) {
    absl::StrAppendFormat(&text, "test loss %.4g\n", loss);
  }
  return text;
}

std::string PathOf(const std::string& run_dir) {
  return absl::StrCat(run_dir, "/summary.json");
}

// Empty where the job has no checkpoints.
std::string DescribeCheckpoints(const json& summary) {
  const auto found = summary.find("checkpoints");
  if (found == summary.end() || !found->is_object()) return "";
  std::string text =
      absl::StrFormat("\ncheckpoints: %.0f written", Number(*found, "written"));
  const double newest = Number(*found, "newest_version");
  if (!std::isnan(newest)) {
    absl::StrAppendFormat(&text, ", the newest of version %.0f", newest);
  }
  for (const char* what : {"failed", "late"}) {
    const double count = Number(*found, what);
    if (count > 0) absl::StrAppendFormat(&text, ", %.0f %s", count, what);
  }
  const std::string error = found->value("last_error", "");
  if (!error.empty()) {
    absl::StrAppend(&text, "\nthe last checkpoint that failed: ", error);
  }
  return text;
}

// Empty if the run had one generation only.
std::string DescribeRecoveries(const json& summary) {
  const double generation = Number(summary, "generation");
  if (!(generation > 1)) return "";
  return absl::StrFormat(
      "\nbegun again %.0f times: %.0f updates and %.0f gradients lost",
      generation - 1, Number(summary, "updates_lost"),
      Number(summary.value("gradients", json()), "lost"));
}

// Goodput is measured with the whole logs in memory: 64 MiB are 600,000 tasks,
// which take 3 s and 500 MiB. Who wants it of a longer run asks for it.
constexpr uintmax_t kMostLogBytes = 64 << 20;

// Of all commit logs of the run.
uintmax_t LogBytes(const std::string& run_dir) {
  uintmax_t bytes = 0;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(run_dir, error)) {
    if (!absl::StartsWith(entry.path().filename().string(), "commit_log")) {
      continue;
    }
    const uintmax_t size = entry.file_size(error);
    if (!error) bytes += size;
  }
  return bytes;
}

// Empty where the commit logs cannot be read, are long, or hold no task.
std::string DescribeTime(const std::string& run_dir) {
  if (LogBytes(run_dir) > kMostLogBytes) return "";
  const absl::StatusOr<Goodput> goodput = ReadRunGoodput(run_dir);
  if (!goodput.ok()) return "";
  const std::string text = GoodputInShort(*goodput);
  return text.empty() ? "" : absl::StrCat("\n", text);
}

// Null if there is no summary that can be read.
json ReadSummary(const std::string& run_dir) {
  std::ifstream file(PathOf(run_dir));
  const json summary = json::parse(file, nullptr, /*allow_exceptions=*/false);
  return summary.is_object() ? summary : json();
}

}  // namespace

absl::StatusOr<RunResult> ReadRunResult(const std::string& run_dir) {
  const json summary = ReadSummary(run_dir);
  if (summary.is_null()) {
    return absl::NotFoundError(
        absl::StrCat(PathOf(run_dir), ": cannot be read"));
  }
  const auto maybe = [&](const char* name) {
    const double number = Number(summary, name);
    return std::isnan(number) ? std::nullopt : std::optional<double>(number);
  };
  RunResult result;
  result.failure = Text(summary, "failure");
  result.reason = Text(summary, "reason");
  result.version = static_cast<int64_t>(maybe("version").value_or(0));
  result.seconds = maybe("seconds").value_or(0);
  result.test_accuracy = maybe("test_accuracy");
  result.test_loss = maybe("test_loss");
  result.weights_sha256 = Text(summary, "weights_sha256");
  result.counters = CountersFromJson(kRunCounters, summary);
  return result;
}

std::string FailureInSummary(const std::string& run_dir) {
  return Text(ReadSummary(run_dir), "failure");
}

int64_t CancelledInSummary(const std::string& run_dir) {
  return CountersFromJson(kRunCounters, ReadSummary(run_dir)).cancelled;
}

std::string DescribeSummary(const std::string& run_dir) {
  const json summary = ReadSummary(run_dir);
  if (summary.is_null()) {
    return absl::StrCat(PathOf(run_dir), " cannot be read\n");
  }
  std::string text = DescribeTest(summary);
  absl::StrAppendFormat(&text, "%.0f updates in %s, %.0f samples/s\n",
                        Number(summary, "version"),
                        FormatSeconds(Number(summary, "seconds")),
                        Number(summary, "samples_per_second"));
  const auto counters = CountersFromJson(kRunCounters, summary);
  absl::StrAppendFormat(
      &text, "gradients: applied %d, cancelled %d, dropped %d, rejected %d",
      counters.applied, counters.cancelled, counters.dropped,
      counters.rejected);
  CounterMap by_name;
  PutCounters(kRunCounters, counters, &by_name);
  for (const auto& [what, value] : NotableCounters(by_name)) {
    absl::StrAppend(&text, ", ", what, " ", value);
  }
  absl::StrAppend(&text, DescribeCheckpoints(summary),
                  DescribeRecoveries(summary), DescribeTime(run_dir),
                  "\nresults in ", run_dir, "\n");
  return text;
}

}  // namespace sluice
