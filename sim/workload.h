#ifndef SLUICE_SIM_WORKLOAD_H_
#define SLUICE_SIM_WORKLOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// The weights and gradients of a simulated cluster. The simulation itself only
// knows times; a Workload supplies the content.
//
// Not thread-safe: call from the thread that simulates.
class Workload {
 public:
  virtual ~Workload() = default;

  struct Computed {
    int64_t samples = 0;
    double loss = 0;  // Mean over the samples.
    // Why a shard refused the gradient (NaN or Inf, with the tensor's name);
    // empty if none did.
    std::string rejected;
  };

  // The shard sends its newest slice to the worker, for the worker's task.
  virtual void Pulled(WorkerId worker, ShardId shard) = 0;
  // The worker's task has ended. The slices it has pulled are no longer needed.
  virtual void Ended(WorkerId worker) = 0;
  // Computes the gradient of `task` at the slices its worker has pulled, and
  // stages it on every shard. Called when the gradient is delivered and the
  // task has not ended, so a task that was cancelled earlier is never computed.
  // An error ends the simulation.
  virtual absl::StatusOr<Computed> Compute(const Task& task) = 0;
  // The shard executes the decision. Returns the digests of the version it
  // makes, if they are due.
  virtual absl::StatusOr<std::vector<uint64_t>> Execute(
      ShardId shard, const Decision& decision) = 0;
  // Evaluates a version that every shard has and that is pinned.
  virtual absl::StatusOr<Evaluation> Evaluate(const SendEvaluate& request) = 0;
};

}  // namespace sluice

#endif  // SLUICE_SIM_WORKLOAD_H_
