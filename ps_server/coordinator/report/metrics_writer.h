#ifndef SLUICE_PS_SERVER_COORDINATOR_REPORT_METRICS_WRITER_H_
#define SLUICE_PS_SERVER_COORDINATOR_REPORT_METRICS_WRITER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/appended_file.h"
#include "ps_server/coordinator/core/job_state.h"
#include "ps_server/coordinator/report/rate_meter.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// One line of metrics.jsonl, without the newline: a JSON object of the state,
// the rates and all counters (core/counters.h) and, when `fresh` is an
// evaluation that has just come in, of what it found. docs/protocol.md lists
// the members.
std::string MetricsLine(const JobState& state, const Rates& rates,
                        const std::optional<Evaluation>& fresh);

// Appends lines to metrics.jsonl, each visible to readers at once.
// Thread-compatible.
class MetricsWriter {
 public:
  // Creates `path`, or goes on with it. kUnavailable names it.
  static absl::StatusOr<std::unique_ptr<MetricsWriter>> Create(
      const std::string& path);

  // Appends `line` and a newline, or nothing. After an error (kUnavailable,
  // names the file) later lines are tried again.
  absl::Status Write(const std::string& line);

 private:
  explicit MetricsWriter(AppendedFile file) : file_(std::move(file)) {}

  AppendedFile file_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_REPORT_METRICS_WRITER_H_
