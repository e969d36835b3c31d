#include "cli/plot/recorded_run.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/report/run_result.h"
#include "cli/run_folder.h"
#include "common/status_macros.h"
#include "ps_server/coordinator/log/generations.h"

namespace sluice {
namespace {

using nlohmann::json;

// A finite number; JSON has null for the others.
std::optional<double> Number(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

// Empty where there is none.
std::string Text(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : "";
}

// Drops what was written later than `seconds`.
template <typename Line>
void Drop(double seconds, std::vector<Line>* lines) {
  while (!lines->empty() && lines->back().seconds > seconds) lines->pop_back();
}

// False: the line is not one of metrics.jsonl.
bool ParseLine(absl::string_view line, Metrics* metrics) {
  const json object = json::parse(line.begin(), line.end(), nullptr,
                                  /*allow_exceptions=*/false);
  if (!object.is_object()) return false;
  const auto seconds = Number(object, "seconds");
  const auto version = Number(object, "version");
  if (!seconds.has_value() || !version.has_value()) return false;
  // A later generation starts again from a checkpoint: drop what an earlier one
  // measured beyond.
  Drop(*seconds, &metrics->progress);
  Drop(*seconds, &metrics->evaluations);
  const auto loss = Number(object, "loss");
  // Before the first update there is no loss, and the file has a 0.
  if (loss.has_value() && *version > 0) {
    metrics->progress.push_back(
        {*seconds, static_cast<int64_t>(*version), *loss});
  }
  const auto test_version = Number(object, "test_version");
  if (test_version.has_value()) {
    metrics->evaluations.push_back(
        {*seconds, static_cast<int64_t>(*test_version),
         Number(object, "test_loss"), Number(object, "test_accuracy")});
  }
  return true;
}

void ReadSummary(RecordedRun* run) {
  const auto text = TextOfFile(absl::StrCat(run->folder, "/summary.json"));
  if (!text.has_value()) {
    run->notes.push_back("no summary.json: drawn as far as the run went");
    return;
  }
  const json summary = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!summary.is_object()) {
    run->notes.push_back("summary.json is no JSON object: not used");
    return;
  }
  run->policy = Text(summary, "policy");
  const std::string failure = Text(summary, "failure");
  if (!failure.empty()) {
    run->notes.push_back(absl::StrCat("the run failed: ", failure));
  }
}

// Notes which curves are missing.
void NoteEvaluations(RecordedRun* run) {
  const std::vector<EvaluationLine>& evaluations = run->metrics.evaluations;
  if (evaluations.empty()) {
    run->notes.push_back("no evaluations: without test loss and accuracy");
    return;
  }
  const int64_t losses = std::ranges::count_if(
      evaluations, [](const auto& line) { return line.loss.has_value(); });
  if (losses < std::ssize(evaluations)) {
    run->notes.push_back(absl::StrCat(
        "test losses that are NaN or infinite, which are left out: ",
        std::ssize(evaluations) - losses));
  }
  if (std::ranges::none_of(evaluations, [](const auto& line) {
        return line.accuracy.has_value();
      })) {
    run->notes.push_back(
        "its evaluations measure no accuracy (a regression): without it");
  }
}

Version NewestOf(const CommitLog& log) {
  for (auto it = log.records.rbegin(); it != log.records.rend(); ++it) {
    if (it->has_commit()) return Version(it->commit().version());
  }
  return Version(log.header.restored_version());
}

void ReadLog(RecordedRun* run) {
  const absl::StatusOr<RunResult> result = ReadRunResult(run->folder);
  const absl::StatusOr<Lineage> lineage = ReadLineage(run->folder);
  if (!lineage.ok()) {
    run->notes.push_back(absl::StrCat(
        lineage.status().message(),
        "; without staleness and timeline, its training loss as metrics.jsonl "
        "smooths it"));
    return;
  }
  run->log = JoinLogs(*lineage);
  const absl::Status whole =
      CheckLogsReachEnd(run->folder, result, NewestOf(*run->log));
  if (!whole.ok()) run->notes.push_back(std::string(whole.message()));
  if (run->log->torn.has_value()) {
    run->notes.push_back(run->log->torn->ToString());
  }
}

}  // namespace

Metrics ParseMetrics(absl::string_view text) {
  Metrics metrics;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (line.empty() || ParseLine(line, &metrics)) continue;
    const bool last = line.data() + line.size() == text.data() + text.size();
    metrics.notes.push_back(absl::StrCat(
        "metrics.jsonl: line ", number,
        last ? " is cut short" : " is no JSON object with seconds and version",
        " and left out"));
  }
  return metrics;
}

absl::StatusOr<RecordedRun> ReadRecordedRun(const std::string& folder) {
  RecordedRun run;
  run.folder = folder;
  SLUICE_RETURN_IF_ERROR(CheckMayRead(folder));
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return absl::NotFoundError(absl::StrCat(folder, ": is no folder"));
  }
  const auto metrics = TextOfFile(absl::StrCat(folder, "/metrics.jsonl"));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Generation> generations,
                          ListGenerations(folder));
  const bool has_log = !generations.empty();
  if (!metrics.has_value() && !has_log) {
    return absl::NotFoundError(
        absl::StrCat(folder,
                     ": is no run's folder: it holds neither metrics.jsonl nor "
                     "commit_log"));
  }
  ReadSummary(&run);
  if (metrics.has_value()) {
    run.metrics = ParseMetrics(*metrics);
    run.notes.insert(run.notes.end(), run.metrics.notes.begin(),
                     run.metrics.notes.end());
    NoteEvaluations(&run);
  } else {
    run.notes.push_back("no metrics.jsonl: without test loss and accuracy");
  }
  ReadLog(&run);
  return run;
}

}  // namespace sluice
