#ifndef SLUICE_SIM_GRADIENT_WORKLOAD_H_
#define SLUICE_SIM_GRADIENT_WORKLOAD_H_

#include <memory>
#include <vector>

#include "sim/local_training.h"
#include "sim/workload.h"

namespace sluice {

// The real weights and gradients of a simulated cluster. One trainer computes
// for all workers, each gradient at the slices that its worker has pulled. The
// slices are kept until then, as one copy of each version in use.
//
// Not thread-safe: call from the thread that simulates.
class GradientWorkload final : public Workload {
 public:
  // `training` must outlive this.
  GradientWorkload(LocalTraining* training, int workers);

  void Pulled(WorkerId worker, ShardId shard) override;
  void Ended(WorkerId worker) override;
  absl::StatusOr<Computed> Compute(const Task& task) override;
  absl::StatusOr<std::vector<uint64_t>> Execute(
      ShardId shard, const Decision& decision) override;
  absl::StatusOr<Evaluation> Evaluate(const SendEvaluate& request) override;

  // Number of gradients computed.
  int64_t computed() const { return computed_; }

 private:
  LocalTraining& training_;
  std::vector<Snapshots> pulled_;  // By worker; null where nothing is held.
  int64_t computed_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_SIM_GRADIENT_WORKLOAD_H_
