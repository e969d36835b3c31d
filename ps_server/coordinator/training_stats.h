#ifndef SLUICE_PS_SERVER_COORDINATOR_TRAINING_STATS_H_
#define SLUICE_PS_SERVER_COORDINATOR_TRAINING_STATS_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/ids.h"
#include "ps_server/coordinator/events.h"
#include "ps_server/coordinator/job_state.h"

namespace sluice {

// What people ask about a run: how gradients ended, how stale they were, how
// the loss goes.
//
// Not thread-safe: call from the coordinator.
class TrainingStats {
 public:
  // Bins of the staleness histogram; the last holds all above.
  static constexpr int kStalenessBins = 33;

  // Every gradient that ends; for one that was applied call Applied as well.
  void Ended(WorkerId worker, Outcome outcome);
  void Applied(int64_t staleness, int64_t samples);
  // `loss` is the mean over the samples of one update.
  void Updated(double loss, double learning_rate);
  // Mini-batches that will never be in the model.
  void LeftOut(int64_t batches) { left_out_ += batches; }

  int64_t samples_applied() const { return samples_applied_; }
  int64_t left_out() const { return left_out_; }
  // Smoothed over about the last 20 updates; 0 before the first.
  double loss() const { return loss_; }
  double learning_rate() const { return learning_rate_; }
  double mean_staleness() const;
  const std::vector<int64_t>& staleness_histogram() const {
    return staleness_histogram_;
  }
  const GradientCounts& gradients() const { return gradients_; }
  GradientCounts GradientsOf(WorkerId worker) const;

 private:
  int64_t samples_applied_ = 0;
  int64_t left_out_ = 0;
  double loss_ = 0;
  int64_t updates_ = 0;
  double learning_rate_ = 0;
  int64_t staleness_sum_ = 0;
  std::vector<int64_t> staleness_histogram_ =
      std::vector<int64_t>(kStalenessBins);
  GradientCounts gradients_;
  absl::flat_hash_map<WorkerId, GradientCounts> by_worker_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_TRAINING_STATS_H_
