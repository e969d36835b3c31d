#ifndef SLUICE_CLI_REPORT_RUN_RESULT_H_
#define SLUICE_CLI_REPORT_RUN_RESULT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/core/counters.h"

namespace sluice {

// What RUN_DIR/summary.json says of a run that is over.
struct RunResult {
  std::string failure = {};  // Empty: it reached its end.
  std::string reason = {};   // "8 epochs done"
  int64_t version = 0;
  double seconds = 0;
  // Absent where nothing was evaluated; accuracy also of a regression.
  std::optional<double> test_accuracy = {};
  std::optional<double> test_loss = {};
  std::string weights_sha256 = {};  // Empty where nothing was evaluated.
  RunCounters counters = {};
};
// kNotFound: there is no such file. kDataLoss: it is no JSON object, or a
// member is of another type than a coordinator gives it; names it.
absl::StatusOr<RunResult> ReadRunResult(const std::string& run_dir);

// Whether a run has ended, well or not.
bool IsOver(const proto::JobStatus& status);

// How a run that is over stood in the end, in the form in which a coordinator
// says it: its summary or, where it left none, FailureFileOf, and the last line
// of its metrics.jsonl. The phase is "finished" or "failed". Errors as
// ReadRunResult's.
absl::StatusOr<proto::JobStatus> ReadFinishedStatus(const std::string& run_dir);

// RUN_DIR/summary.json as text, several lines. Errors as ReadRunResult's.
absl::StatusOr<std::string> DescribeSummary(const std::string& run_dir);

// Whether the run's commit logs, the newest version of which is `newest`, are
// all there. `result` was read before them, as a run may go on meanwhile.
// kDataLoss: the run ended well at a later version; names the last file. OK
// where there is no result.
absl::Status CheckLogsReachEnd(const std::string& run_dir,
                               const absl::StatusOr<RunResult>& result,
                               Version newest);

// The same, and whether its summary is. kDataLoss: it is damaged.
absl::Status CheckRecordIsWhole(const std::string& run_dir,
                                const absl::StatusOr<RunResult>& result,
                                Version newest);

// Why the run failed, as its coordinator wrote to summary.json; empty if it did
// not fail, or wrote none.
std::string FailureInSummary(const std::string& run_dir);

// How many of the run's tasks were cancelled; 0 if there is no summary.
int64_t CancelledInSummary(const std::string& run_dir);

}  // namespace sluice

#endif  // SLUICE_CLI_REPORT_RUN_RESULT_H_
