#ifndef SLUICE_PS_SERVER_COORDINATOR_REPORT_COMPUTE_TIMES_WRITER_H_
#define SLUICE_PS_SERVER_COORDINATOR_REPORT_COMPUTE_TIMES_WRITER_H_

#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// Appends to a run's compute_times.txt, which the delay model `trace` reads:
// one line for each gradient that was delivered, its milliseconds and its
// worker.
//
// Lines reach the file whole, some at a time: a reader, or the death of this
// process, never finds half a number.
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
  // an error (kUnavailable, names the file) later lines are tried again.
  absl::Status Record(const Actions& actions, double seconds);
  // Writes what is left. Errors as Record's.
  absl::Status Flush();

 private:
  ComputeTimesWriter(std::string path, std::ofstream out);

  const std::string path_;
  std::ofstream out_;
  std::string lines_;  // Not yet written.
  double written_at_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_REPORT_COMPUTE_TIMES_WRITER_H_
