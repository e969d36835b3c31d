#ifndef SLUICE_PS_SERVER_COORDINATOR_REPORT_COMPUTE_TIMES_WRITER_H_
#define SLUICE_PS_SERVER_COORDINATOR_REPORT_COMPUTE_TIMES_WRITER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/appended_file.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// Appends to a run's compute_times.txt, which the delay model `trace` reads:
// one line for each gradient that was delivered, its milliseconds and its
// worker.
//
// Lines reach the file whole, some at a time: a reader, the death of this
// process or a full disk never finds, or leaves, half a number.
//
// Thread-compatible.
class ComputeTimesWriter {
 public:
  // Creates `path`, or goes on with it. kUnavailable names it.
  static absl::StatusOr<std::unique_ptr<ComputeTimesWriter>> Create(
      const std::string& path);
  ~ComputeTimesWriter() { Flush().IgnoreError(); }

  // Adds what `actions` ask to be recorded, as of `seconds` since the
  // coordinator started; a second later at the latest a call writes it. After
  // an error (kUnavailable, names the file) those lines are lost, and later
  // ones are tried.
  absl::Status Record(const Actions& actions, double seconds);
  // Writes what is left. Errors as Record's.
  absl::Status Flush();

 private:
  explicit ComputeTimesWriter(AppendedFile file) : file_(std::move(file)) {}

  AppendedFile file_;
  std::string lines_;  // Not yet written.
  double written_at_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_REPORT_COMPUTE_TIMES_WRITER_H_
