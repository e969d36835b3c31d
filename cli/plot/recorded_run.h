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

// What an evaluation found; `seconds` since the run began is when its result
// came in, `version` the one it measured.
struct EvaluationLine {
  double seconds = 0;
  int64_t version = 0;
  double loss = 0;
  std::optional<double> accuracy;
};

// How the training stood: the smoothed loss, `seconds` after the run began.
struct ProgressLine {
  double seconds = 0;
  int64_t version = 0;
  double loss = 0;
};

// metrics.jsonl. Every line is progress; some are evaluations too.
struct Metrics {
  std::vector<ProgressLine> progress;
  std::vector<EvaluationLine> evaluations;
  // What had to be left out, by line.
  std::vector<std::string> notes;
};

// Reads the lines of a metrics.jsonl. A line that is no such JSON object, as
// the last one of a run that was killed may be, is left out with a note.
Metrics ParseMetrics(absl::string_view text);

// What a run has left in its folder, as far as pictures need it. Daemons and
// the simulator leave the same files.
struct RecordedRun {
  std::string folder;
  std::string policy;  // "K_SYNC"; empty when nothing says so.
  Metrics metrics;
  std::optional<CommitLog> log;
  // What is missing or could not be read, and so will not be drawn.
  std::vector<std::string> notes;
};

// Reads the folder of a run: over, failed, killed or going on still.
// kNotFound: it is no such folder, or holds neither metrics.jsonl nor
// commit_log.
absl::StatusOr<RecordedRun> ReadRecordedRun(const std::string& folder);

}  // namespace sluice

#endif  // SLUICE_CLI_PLOT_RECORDED_RUN_H_
