#ifndef SLUICE_SIM_WORKLOAD_H_
#define SLUICE_SIM_WORKLOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "ps_server/coordinator/events.h"

namespace sluice {

// What flows through a simulated cluster besides time: weights and gradients.
//
// Not thread-safe: call from the thread that simulates.
class Workload {
 public:
  virtual ~Workload() = default;

  struct Computed {
    int64_t samples = 0;
    double loss = 0;  // Mean over the samples.
    // A shard refused the gradient (NaN or Inf): names the tensor.
    std::string rejected;
  };

  // The shard sends its newest slice to the worker, for the task it has.
  virtual void Pulled(WorkerId worker, ShardId shard) = 0;
  // The worker's task is over; what it has pulled is not needed any more.
  virtual void Ended(WorkerId worker) = 0;
  // The gradient of `task` at the slices its worker has pulled is staged on
  // every shard. Called when it is delivered and its task has not ended: what
  // was cancelled before is never computed. Errors end the simulation.
  virtual absl::StatusOr<Computed> Compute(const Task& task) = 0;
  // The shard executes the decision. Returns the digests of the version it
  // makes, when they are due.
  virtual absl::StatusOr<std::vector<uint64_t>> Execute(
      ShardId shard, const Decision& decision) = 0;
  // Measures a version that every shard has, pinned.
  virtual absl::StatusOr<Evaluation> Evaluate(const SendEvaluate& request) = 0;
};

}  // namespace sluice

#endif  // SLUICE_SIM_WORKLOAD_H_
