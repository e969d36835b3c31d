#ifndef SLUICE_COMMON_DELAY_MODEL_H_
#define SLUICE_COMMON_DELAY_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace sluice {

// One of a job's distributions of durations. A draw is a pure function of
// (seed, what it is for, worker, index): the daemons and the simulator draw the
// same.
//
// Immutable, therefore thread-safe.
class DelayModel {
 public:
  // No delay at all.
  DelayModel() = default;

  // `delay`: valid, or without a kind for no delay. `stream` says what the
  // draws are for: "delays.latency". `workers` is cluster.workers, of which
  // some may be slow. kNotFound, kInvalidArgument: the trace file cannot be
  // read, or a line of it is not as it should be (names the line and what it
  // holds).
  static absl::StatusOr<DelayModel> Create(const proto::Delay& delay,
                                           uint64_t seed,
                                           absl::string_view stream,
                                           int workers);

  // The `index`-th draw of a worker, in seconds; workers beyond `workers` draw
  // too, none of them slow. REQUIRES: worker >= 0, index >= 0.
  double Draw(int64_t worker, int64_t index) const;

  // Expected seconds over all draws and the `workers`.
  double Mean() const;

  bool always_zero() const;

 private:
  absl::Status ReadTrace();
  // What the worker draws from.
  const std::vector<double>& TraceOf(int64_t worker) const;

  // Constant after construction.
  proto::Delay delay_;
  uint64_t seed_ = 0;
  uint64_t stream_ = 0;
  int workers_ = 1;
  int slow_workers_ = 0;  // Two speeds.
  // Seconds: of all lines of the trace, and of those that name the worker.
  std::vector<double> trace_;
  std::vector<std::vector<double>> worker_traces_;
};

// What a task's computation takes beyond its own: the job's `delays.compute`
// with the workers' factors, one draw for each mini-batch.
//
// Immutable, therefore thread-safe.
class ComputeDelay {
 public:
  ComputeDelay() = default;  // None.
  // `job`: valid, with defaults filled in. Errors as DelayModel's.
  static absl::StatusOr<ComputeDelay> Create(const proto::Job& job);

  // Seconds of worker `worker`'s task number `sequence`, of `batches`
  // mini-batches. REQUIRES: worker and sequence >= 0, batches <= 65536.
  double Draw(int64_t worker, int64_t sequence, int batches) const;

  // Expected seconds of a task of one mini-batch, over draws and workers.
  double Mean() const { return model_.Mean() * mean_factor_; }

  // One mini-batch's delay, without the workers' factors.
  const DelayModel& model() const { return model_; }

 private:
  DelayModel model_;
  std::vector<double> factors_;
  double mean_factor_ = 1;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_DELAY_MODEL_H_
