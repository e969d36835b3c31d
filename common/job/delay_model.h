#ifndef SLUICE_COMMON_JOB_DELAY_MODEL_H_
#define SLUICE_COMMON_JOB_DELAY_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/files/file_operations.h"
#include "proto/job.pb.h"

namespace sluice {

// One of a job's distributions of durations. A draw is a pure function of
// (seed, purpose, worker, index), so the daemons and the simulator draw the
// same numbers.
//
// Immutable, therefore thread-safe.
class DelayModel {
 public:
  // No delay.
  DelayModel() = default;

  // `delay`: valid, or without a kind for no delay. `stream` is the purpose of
  // the draws: "delays.latency". `workers` is cluster.workers; some of them may
  // be slow. Errors of InputFile for a trace (`files` reads it), and
  // kInvalidArgument: a line of it is malformed (the message names the line and
  // what it holds), or it is too large.
  static absl::StatusOr<DelayModel> Create(
      const proto::Delay& delay, uint64_t seed, absl::string_view stream,
      int workers, FileOperations* files = FileOperations::Real());

  // The `index`-th draw of a worker, in seconds. Workers beyond `workers` may
  // draw too; none of them is slow. REQUIRES: worker >= 0, index >= 0.
  double Draw(int64_t worker, int64_t index) const;
  // The `index`-th draw of all workers together: one sequence, of which this
  // draw is for `worker`, with its speed and its lines of a trace.
  // Distributions without these draw the same whatever the worker. REQUIRES: as
  // above.
  double DrawTogether(int64_t worker, int64_t index) const;

  // Mean in seconds of the draws of each of the `workers`, and over all.
  std::vector<double> Means() const;
  double Mean() const;

  bool always_zero() const;

 private:
  absl::Status ReadTrace(FileOperations* files);
  // A draw for `worker` from the numbers of another, `stream`.
  double DrawFrom(int64_t stream, int64_t worker, int64_t index) const;
  // The durations that the worker draws from.
  const std::vector<double>& TraceOf(int64_t worker) const;

  // Constant after construction.
  proto::Delay delay_;
  uint64_t seed_ = 0;
  uint64_t stream_ = 0;
  int workers_ = 1;
  int slow_workers_ = 0;  // For two_speed.
  // In seconds: all lines of the trace, and by worker the lines that name it.
  std::vector<double> trace_;
  std::vector<std::vector<double>> worker_traces_;
};

// The added compute time of tasks: one draw of the job's `delays.compute` for
// each mini-batch, times the worker's factor.
//
// Immutable, therefore thread-safe.
class ComputeDelay {
 public:
  ComputeDelay() = default;  // No delay.
  // `job` is valid, with defaults filled in. Errors are those of
  // DelayModel::Create.
  static absl::StatusOr<ComputeDelay> Create(const proto::Job& job);

  // Seconds for task `sequence` of `worker`, which has `batches` mini-batches.
  // REQUIRES: worker and sequence >= 0, batches <= 65536.
  double Draw(int64_t worker, int64_t sequence, int batches) const;

  // Mean seconds of a task of one mini-batch, over draws and workers.
  double Mean() const { return mean_; }

  // The delay of one mini-batch, without the workers' factors.
  const DelayModel& model() const { return model_; }

 private:
  double FactorOf(int64_t worker) const;

  DelayModel model_;
  std::vector<double> factors_;
  double mean_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_JOB_DELAY_MODEL_H_
