#ifndef SLUICE_PS_SERVER_COORDINATOR_CORE_TRAINING_STATS_H_
#define SLUICE_PS_SERVER_COORDINATOR_CORE_TRAINING_STATS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/ids.h"
#include "common/telemetry/logged_values.h"
#include "ps_server/coordinator/core/counters.h"
#include "ps_server/coordinator/core/task_times.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// What people ask about a run: what was counted, how stale gradients were, how
// the loss goes.
//
// Not thread-safe: call from the coordinator.
class TrainingStats {
 public:
  // Bins of the staleness histogram; the last holds all above.
  static constexpr int kStalenessBins = 33;

  // What has been counted; not by worker.
  struct Totals {
    RunCounters counters;
    int64_t updates = 0;  // With a finite loss.
    double loss = 0;      // Smoothed over about the last 20 of them.
    double learning_rate = 0;
    int64_t staleness_sum = 0;
    std::vector<int64_t> staleness_histogram =
        std::vector<int64_t>(kStalenessBins);
  };

  TrainingStats() = default;
  // Goes on from `totals`. REQUIRES: their histogram has kStalenessBins.
  explicit TrainingStats(Totals totals)
      : totals_(std::move(totals)), at_update_(totals_.counters) {}

  // Every gradient that ends; for one that was applied call Applied as well.
  void Ended(WorkerId worker, Outcome outcome);
  void Applied(int64_t staleness, int64_t samples);
  // `loss` is the mean over the samples of one update; none where no gradient
  // of it came with a finite one. The smoothed loss then stays.
  void Updated(std::optional<double> loss, double learning_rate);
  // What came with a gradient. Values that are not finite are left out.
  void Logged(const LoggedValues& values);
  // How long the task took of a gradient that came.
  void Timed(const Delivery& delivery);
  // Whatever else is counted: Count(&RunCounters::losses_not_finite).
  void Count(int64_t RunCounters::*counter, int64_t n = 1) {
    totals_.counters.*counter += n;
  }

  // As a checkpoint of the newest version holds them: without the ends since
  // its update. Whoever goes on from it counts those as lost, as the logs do.
  Totals TotalsOfUpdate() const;
  const RunCounters& counters() const { return totals_.counters; }
  int64_t samples_applied() const { return counters().samples_applied; }
  // Smoothed over about the last 20 updates; 0 before the first, NaN where none
  // has come with a finite one.
  double loss() const;
  double learning_rate() const { return totals_.learning_rate; }
  // Each smoothed over about the last 20 that came in this generation.
  LoggedValues logged() const;
  // In this generation.
  const TaskTimes& task_times() const { return task_times_; }
  double mean_staleness() const;
  const std::vector<int64_t>& staleness_histogram() const {
    return totals_.staleness_histogram;
  }
  GradientCounts GradientsOf(WorkerId worker) const;

 private:
  struct Smoothed {
    int64_t count = 0;
    double value = 0;
  };

  Totals totals_;
  GradientCounts at_update_;  // Of `totals_`, at the newest update.
  TaskTimes task_times_;
  std::map<std::string, Smoothed> logged_;
  absl::flat_hash_map<WorkerId, GradientCounts> by_worker_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_CORE_TRAINING_STATS_H_
