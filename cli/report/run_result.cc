#include "cli/report/run_result.h"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "cli/launch/progress.h"
#include "cli/report/goodput.h"
#include "cli/report/notable_counters.h"
#include "cli/run_folder.h"
#include "common/ids.h"
#include "common/job/job_counts.h"
#include "common/status_macros.h"
#include "common/telemetry/counter_json.h"
#include "common/telemetry/counter_table.h"
#include "ps_server/coordinator/log/commit_log_file.h"
#include "ps_server/coordinator/log/generations.h"
#include "ps_server/coordinator/log/worker_time.h"

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
    absl::StrAppend(&text, "test loss ", FormatLoss(loss), "\n");
  } else if (!std::isnan(Number(summary, "test_version"))) {
    absl::StrAppend(&text, "test loss NaN or infinite\n");
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
  const double generation = Number(summary, "generation");
  if (generation > 1) {
    absl::StrAppendFormat(&text, " since generation %.0f began", generation);
  }
  const double newest = Number(*found, "newest_version");
  if (!std::isnan(newest)) {
    absl::StrAppendFormat(&text, ", the newest of version %.0f", newest);
  }
  for (const char* what : {"failed", "late"}) {
    const double count = Number(*found, what);
    if (count > 0) absl::StrAppendFormat(&text, ", %.0f %s", count, what);
  }
  const std::string error = Text(*found, "last_error");
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
      "\nbegun again %.0f time%s: %.0f updates and %.0f gradients lost",
      generation - 1, generation == 2 ? "" : "s",
      Number(summary, "updates_lost"),
      Number(summary.value("gradients", json()), "lost"));
}

// Empty where the workers' time was not measured, or no worker has had a task.
std::string DescribeTime(const json& summary) {
  const auto found = summary.find("worker_time");
  if (found == summary.end() || !found->is_object()) return "";
  WorkerSeconds shares;
  for (const TimeCause& cause : kTimeCauses) {
    shares.*cause.seconds = Number(*found, cause.name);
  }
  const std::string text = GoodputInShort(shares);
  return text.empty() ? "" : absl::StrCat("\n", text);
}

// Null if there is no summary that can be read.
json ParseSummary(const std::string& run_dir) {
  const json summary = json::parse(TextOfFile(PathOf(run_dir)).value_or(""),
                                   nullptr, /*allow_exceptions=*/false);
  return summary.is_object() ? summary : json();
}

// What a member of the summary is; it may be null or absent.
struct Expected {
  bool (json::*is)() const noexcept;
  const char* what;
};
constexpr Expected kCount = {&json::is_number_unsigned, "a count"};
constexpr Expected kNumber = {&json::is_number, "a number"};
constexpr Expected kText = {&json::is_string, "a text"};
constexpr Expected kObject = {&json::is_object, "an object"};

constexpr std::pair<const char*, Expected> kMembers[] = {
    {"version", kCount},
    {"seconds", kNumber},
    {"generation", kCount},
    {"updates_lost", kCount},
    {"workers", kCount},
    {"epochs", kNumber},
    {"samples_per_second", kNumber},
    {"mean_staleness", kNumber},
    {"test_version", kCount},
    {"test_loss", kNumber},
    {"test_accuracy", kNumber},
    {"name", kText},
    {"policy", kText},
    {"reason", kText},
    {"failure", kText},
    {"weights_sha256", kText},
    {"gradients", kObject},
    {"checkpoints", kObject},
    {"checkpoints.newest_version", kCount},
    {"worker_time", kObject},
};

// "version is of type string, expected a count"; empty: it is as expected.
std::string DamageOf(const json& summary, absl::string_view name,
                     const Expected& expected) {
  const json::json_pointer place(CounterPointer(name));
  if (!summary.contains(place)) return "";
  const json& member = summary.at(place);
  if (member.is_null() || (member.*expected.is)()) return "";
  return absl::StrCat(name, " is of type ", member.type_name(), ", expected ",
                      expected.what);
}

// Of the first member that is not as expected.
std::string DamageOf(const json& summary) {
  for (const auto& [name, expected] : kMembers) {
    const std::string damage = DamageOf(summary, name, expected);
    if (!damage.empty()) return damage;
  }
  for (const char* name : {"version", "seconds"}) {
    if (!std::isnan(Number(summary, name))) continue;
    return absl::StrCat(name, " is missing, expected a number");
  }
  const double workers = Number(summary, "workers");
  if (workers < 1 || workers > kMostWorkers) {
    return absl::StrFormat("workers is %.0f, expected 1 to %d", workers,
                           kMostWorkers);
  }
  const auto first_of = [&summary](const auto& counters) -> std::string {
    for (const auto& row : counters) {
      const std::string damage = DamageOf(summary, row.name, kCount);
      if (!damage.empty()) return damage;
    }
    return "";
  };
  const std::string damage = first_of(kRunCounters);
  return damage.empty() ? first_of(kCheckpointCounters) : damage;
}

absl::StatusOr<json> ReadSummary(const std::string& run_dir) {
  const std::string path = PathOf(run_dir);
  const json summary = ParseSummary(run_dir);
  std::error_code error;
  if (summary.is_null() && !std::filesystem::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat(path, ": there is no such file"));
  }
  if (summary.is_null()) {
    return absl::DataLossError(
        absl::StrCat(path, ": cannot be read, expected a JSON object"));
  }
  const std::string damage = DamageOf(summary);
  if (damage.empty()) return summary;
  return absl::DataLossError(absl::StrCat(path, ": is damaged: ", damage));
}

RunResult ResultOf(const json& summary) {
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

void PutCheckpoints(const json& summary, proto::JobStatus* status) {
  const auto found = summary.find("checkpoints");
  if (found == summary.end() || !found->is_object()) return;
  proto::CheckpointStatus* checkpoint = status->mutable_checkpoint();
  const double newest = Number(*found, "newest_version");
  if (!std::isnan(newest)) {
    checkpoint->set_newest_version(static_cast<int64_t>(newest));
  }
  checkpoint->set_last_error(Text(*found, "last_error"));
  PutCounters(kCheckpointCounters,
              CountersFromJson(kCheckpointCounters, summary),
              status->mutable_counters());
}

// 0 if there is none.
double NumberOr0(const json& from, const char* name) {
  const double value = Number(from, name);
  return std::isnan(value) ? 0 : value;
}

// From where the last generation went on, and why, is in its log alone.
void PutRecovery(const std::string& run_dir, const json& summary,
                 proto::JobStatus* status) {
  const auto reader = CommitLogReader::Open(
      CommitLogPath(run_dir, Generation(status->generation())));
  if (!reader.ok() || !(*reader)->header().has_value()) return;
  const proto::LogHeader& header = *(*reader)->header();
  status->set_run_id(header.run_id());
  if (header.parent_generation() == 0) return;
  proto::RecoveryStatus* recovery = status->mutable_recovery();
  recovery->set_restored_version(header.restored_version());
  recovery->set_reason(header.reason());
  recovery->set_updates_lost(
      static_cast<int64_t>(NumberOr0(summary, "updates_lost")));
}

proto::JobStatus StatusOf(const std::string& run_dir, const json& summary) {
  const RunResult result = ResultOf(summary);
  proto::JobStatus status;
  status.set_name(Text(summary, "name"));
  status.set_policy(Text(summary, "policy"));
  status.set_phase(result.failure.empty() ? "finished" : "failed");
  status.set_message(result.failure.empty() ? result.reason : result.failure);
  status.set_generation(static_cast<int64_t>(NumberOr0(summary, "generation")));
  status.set_version(result.version);
  status.set_epoch(NumberOr0(summary, "epochs"));
  status.set_seconds(result.seconds);
  status.set_samples_per_second(NumberOr0(summary, "samples_per_second"));
  if (result.seconds > 0) {
    status.set_updates_per_second(static_cast<double>(result.version) /
                                  result.seconds);
  }
  if (result.failure.empty()) status.set_progress(1);
  status.set_mean_staleness(NumberOr0(summary, "mean_staleness"));
  if (result.test_loss.has_value()) status.set_test_loss(*result.test_loss);
  if (result.test_accuracy.has_value()) {
    status.set_test_accuracy(*result.test_accuracy);
  }
  status.set_test_version(
      static_cast<int64_t>(NumberOr0(summary, "test_version")));
  PutCounters(kRunCounters, result.counters, status.mutable_counters());
  PutCheckpoints(summary, &status);
  PutRecovery(run_dir, summary, &status);
  const auto workers = static_cast<int64_t>(NumberOr0(summary, "workers"));
  for (int64_t worker = 0; worker < workers; ++worker) {
    status.add_worker()->set_id(worker);
    status.mutable_worker()->rbegin()->set_state("left");
  }
  return status;
}

// `failure`: the text of FailureFileOf, the reason in its first line.
proto::JobStatus StatusOfFailure(absl::string_view failure, const json& last) {
  proto::JobStatus status;
  status.set_phase("failed");
  absl::ConsumePrefix(&failure, "the run failed: ");
  status.set_message(std::string(failure.substr(0, failure.find('\n'))));
  if (!last.is_object()) return status;
  status.set_version(static_cast<int64_t>(NumberOr0(last, "version")));
  status.set_epoch(NumberOr0(last, "epoch"));
  status.set_seconds(NumberOr0(last, "seconds"));
  status.set_mean_staleness(NumberOr0(last, "mean_staleness"));
  PutCounters(kRunCounters, CountersFromJson(kRunCounters, last),
              status.mutable_counters());
  return status;
}

// What a summary does not have.
void PutLastLine(const json& last, proto::JobStatus* status) {
  status->set_loss(NumberOr0(last, "loss"));
  status->set_learning_rate(NumberOr0(last, "learning_rate"));
  const auto histogram = last.find("staleness_histogram");
  if (histogram == last.end() || !histogram->is_array()) return;
  for (const json& bin : *histogram) {
    if (bin.is_number()) status->add_staleness_histogram(bin.get<int64_t>());
  }
}

}  // namespace

absl::StatusOr<RunResult> ReadRunResult(const std::string& run_dir) {
  SLUICE_ASSIGN_OR_RETURN(const json summary, ReadSummary(run_dir));
  return ResultOf(summary);
}

absl::StatusOr<proto::JobStatus> ReadFinishedStatus(
    const std::string& run_dir) {
  const json last =
      json::parse(TailOfFile(run_dir + "/metrics.jsonl", 1, ""), nullptr,
                  /*allow_exceptions=*/false);
  const absl::StatusOr<json> summary = ReadSummary(run_dir);
  proto::JobStatus status;
  if (summary.ok()) {
    status = StatusOf(run_dir, *summary);
  } else {
    const auto failure = TextOfFile(FailureFileOf(run_dir));
    if (!absl::IsNotFound(summary.status()) || !failure.has_value()) {
      return summary.status();
    }
    status = StatusOfFailure(*failure, last);
  }
  if (last.is_object()) PutLastLine(last, &status);
  return status;
}

absl::Status CheckLogsReachEnd(const std::string& run_dir,
                               const absl::StatusOr<RunResult>& result,
                               Version newest) {
  if (!result.ok() || !result->failure.empty() ||
      result->version <= newest.value()) {
    return absl::OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<LogFile> files,
                          AllCommitLogFiles(run_dir));
  return absl::DataLossError(
      absl::StrCat(files.empty() ? run_dir : files.back().path,
                   ": the commit logs end with version ", newest.value(),
                   ", the run with version ", result->version,
                   " (summary.json): a file is damaged or not there"));
}

absl::Status CheckRecordIsWhole(const std::string& run_dir,
                                const absl::StatusOr<RunResult>& result,
                                Version newest) {
  if (absl::IsDataLoss(result.status())) return result.status();
  return CheckLogsReachEnd(run_dir, result, newest);
}

bool IsOver(const proto::JobStatus& status) {
  return status.phase() == "finished" || status.phase() == "failed";
}

std::string FailureInSummary(const std::string& run_dir) {
  return Text(ParseSummary(run_dir), "failure");
}

int64_t CancelledInSummary(const std::string& run_dir) {
  return CountersFromJson(kRunCounters, ParseSummary(run_dir)).cancelled;
}

absl::StatusOr<std::string> DescribeSummary(const std::string& run_dir) {
  SLUICE_ASSIGN_OR_RETURN(const json summary, ReadSummary(run_dir));
  const std::string failure = Text(summary, "failure");
  std::string text =
      failure.empty() ? "" : absl::StrCat("the run failed: ", failure, "\n");
  absl::StrAppend(&text, DescribeTest(summary));
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
                  DescribeRecoveries(summary), DescribeTime(summary),
                  "\nresults in ", run_dir, "\n");
  return text;
}

}  // namespace sluice
