#ifndef SLUICE_SIM_TIMING_H_
#define SLUICE_SIM_TIMING_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/resolved_job.h"
#include "sim/cluster_simulation.h"

namespace sluice {

// How a policy uses a cluster in the long run. Seconds are virtual.
struct Timing {
  int64_t updates = 0;
  double mean_update_time = 0;
  // Half of its 99% confidence interval, by batch means.
  double half_width = 0;
  double mean_staleness = 0;
  std::vector<int64_t> staleness_histogram;  // Applied gradients by staleness.
  int64_t started = 0;                       // Tasks.
  // Tasks that were cancelled or dropped, as a share of those started, and
  // their compute time as a share of all.
  double wasted = 0;
  double wasted_time = 0;
  // Share of the workers' time in which they do not compute.
  double idle = 0;
  std::vector<double> worker_idle;  // The same of each worker.
  // t1 / tn: what one worker's task takes on average, by the time in which n
  // workers get n gradients applied. 1: nothing waits, nothing is in vain (more
  // where fast workers do more of the work).
  double scaling_efficiency = 0;
  // By shard.
  std::vector<double> pull_bytes_per_second, push_bytes_per_second;
  std::vector<int64_t> pull_bytes, push_bytes;
  int64_t events = 0;
};

struct TimingOptions {
  // Measured until the interval's half is below this share of the mean ...
  double precision = 0.005;
  // ... or so many updates, whichever comes first; at least 33.
  int64_t most_updates = 4000000;
};

// What a window says; `task_seconds`: t1. REQUIRES: at least two updates.
Timing TimingOf(const SimulationWindow& window, int workers,
                double task_seconds);

// Simulates the times of `job`'s cluster, without its stop conditions: no
// gradient is computed. The first ten tasks of each worker are left out.
// Errors of SimulationOptionsFromJob; kInternal: the cluster stands still.
absl::StatusOr<Timing> MeasureTiming(const ResolvedJob& job,
                                     const TimingOptions& options);

}  // namespace sluice

#endif  // SLUICE_SIM_TIMING_H_
