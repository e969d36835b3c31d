#ifndef SLUICE_CLI_PLOT_RECORDED_RUN_H_
#define SLUICE_CLI_PLOT_RECORDED_RUN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ps_server/coordinator/log/commit_log_file.h"

namespace sluice {

// The result of an evaluation of `version`, which came `seconds` after the run
// began.
struct EvaluationLine {
  double seconds = 0;
  int64_t version = 0;
  std::optional<double> loss;  // Absent where it was NaN or infinite.
  std::optional<double> accuracy;
};

// The smoothed training loss, `seconds` after the run began.
struct ProgressLine {
  double seconds = 0;
  int64_t version = 0;
  double loss = 0;
};

// metrics.jsonl. Every line is progress; some are evaluations too.
struct Metrics {
  std::vector<ProgressLine> progress;
  std::vector<EvaluationLine> evaluations;
  // What was left out, by line.
  std::vector<std::string> notes;
};

// Reads the lines of a metrics.jsonl. Leaves out a line that is no such JSON
// object, with a note: the last line of a run that was killed may be torn.
Metrics ParseMetrics(absl::string_view text);

// What pictures need of a run's folder. Daemons and the simulator leave the
// same files.
struct RecordedRun {
  std::string folder;
  std::string policy;  // "K_SYNC"; empty if it is not known.
  Metrics metrics;
  std::optional<CommitLog> log;
  // What is missing or cannot be read, so that it is not drawn.
  std::vector<std::string> notes;
};

// Reads the folder of a run, which may be over, have failed, been killed or
// still go on. kNotFound: there is no such folder, or it holds neither
// metrics.jsonl nor commit_log.
absl::StatusOr<RecordedRun> ReadRecordedRun(const std::string& folder);

}  // namespace sluice

#endif  // SLUICE_CLI_PLOT_RECORDED_RUN_H_
