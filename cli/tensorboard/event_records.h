#ifndef SLUICE_CLI_TENSORBOARD_EVENT_RECORDS_H_
#define SLUICE_CLI_TENSORBOARD_EVENT_RECORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// A run's metrics as TensorBoard reads them: a file of TFRecords
// (https://www.tensorflow.org/tutorials/load_data/tfrecord), each an Event.
namespace sluice {

// CRC-32C (Castagnoli; RFC 3720, B.4).
uint32_t Crc32c(absl::string_view bytes);

// `bytes` as one record of a TFRecord file.
std::string TfRecord(absl::string_view bytes);

// Turns the lines of a metrics.jsonl, in order, into records:
//
//   every number          a scalar: "loss", "gradients/applied"; the step is
//   the
//                         line's version, and test_version of what begins with
//                         "test_"
//   staleness_histogram   a histogram, "staleness", of the gradients that were
//                         applied since the line before
//
// Where the version falls, a recovery has gone back: TensorBoard is told to
// forget what it has of that version and later ones.
//
// Not thread-safe.
class EventRecords {
 public:
  // `started`: seconds since 1970 at which the run's own seconds began.
  explicit EventRecords(double started) : started_(started) {}

  // What a file begins with.
  std::string Head() const;
  // The records of one line, which has no newline. kInvalidArgument: it is no
  // JSON object with the numbers `seconds` and `version`.
  absl::StatusOr<std::string> Add(absl::string_view line);

 private:
  const double started_;
  int64_t version_ = 0;             // Of the last line.
  std::vector<int64_t> staleness_;  // Its staleness_histogram.
};

}  // namespace sluice

#endif  // SLUICE_CLI_TENSORBOARD_EVENT_RECORDS_H_
