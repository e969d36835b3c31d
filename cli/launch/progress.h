#ifndef SLUICE_CLI_LAUNCH_PROGRESS_H_
#define SLUICE_CLI_LAUNCH_PROGRESS_H_

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "proto/coordinator.pb.h"

namespace sluice {

// How a run stands, in one line:
//   "epoch 1.25/5  version 390  loss 0.412  test 0.8312  13.1 updates/s
//    2516 samples/s  staleness 0.0  cancelled 130  dropped 0  45 s left"
// Before the run has begun: which workers and shards it waits for.
std::string FormatProgress(const proto::JobStatus& status);

// "45 s", "3 min 20 s", "2 h 05 min".
std::string FormatSeconds(double seconds);

// "0.4123"; "NaN", "inf" or "-inf" of a run that has diverged.
std::string FormatLoss(double loss);

// Shows the progress of a run. On a terminal it is one line that is written
// over, folded where the terminal is narrower. Elsewhere it is a line every
// kPlainEvery, at once when the phase changes, and soon after a test result.
// Why a worker has left is a line of its own, at most one every kLossEvery of
// each.
//
// Not thread-safe: call from one thread.
class ProgressView {
 public:
  static constexpr absl::Duration kPlainEvery = absl::Seconds(5);
  // A small job has a new test result at every look.
  static constexpr absl::Duration kTestEvery = absl::Seconds(2);

  // A program that fails at its fourth mini-batch does so every few seconds.
  static constexpr absl::Duration kLossEvery = absl::Minutes(1);

  // `out` outlives this. `columns` is the terminal's width; 0: no terminal.
  ProgressView(std::ostream& out, int columns);

  void Show(const proto::JobStatus& status, absl::Time now);
  // Prints a line that is not written over.
  void Say(const std::string& line);
  // Leaves the progress line as it stands.
  void Finish();

 private:
  void Erase();
  void ShowLosses(const proto::JobStatus& status, absl::Time now);

  // Constant after construction.
  std::ostream& out_;
  const int columns_;

  int rows_open_ = 0;  // Rows of the terminal that the line takes.
  absl::Time last_shown_ = absl::InfinitePast();
  std::string last_phase_;
  int64_t last_test_version_ = -1;
  // Of each worker: what was shown, and when.
  std::map<int64_t, std::pair<std::string, absl::Time>> losses_;
};

// The columns of the terminal behind a file descriptor; 0 when it is none.
int TerminalColumns(int descriptor);

}  // namespace sluice

#endif  // SLUICE_CLI_LAUNCH_PROGRESS_H_
