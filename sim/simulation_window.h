#ifndef SLUICE_SIM_SIMULATION_WINDOW_H_
#define SLUICE_SIM_SIMULATION_WINDOW_H_

#include <cstdint>
#include <vector>

#include "ps_server/coordinator/core/job_state.h"
#include "ps_server/decisions/events.h"
#include "sim/event_queue.h"

namespace sluice {

// Measurements of a simulated cluster from one moment on.
struct SimulationWindow {
  VirtualTime begin = 0;
  VirtualTime end = 0;
  int64_t events = 0;
  std::vector<VirtualTime> commits;  // When each update was decided.
  int64_t started = 0;               // Tasks.
  GradientCounts gradients;
  int64_t staleness_sum = 0;                 // Over applied gradients.
  std::vector<int64_t> staleness_histogram;  // Applied gradients by staleness.
  // Totals over all workers. Wasted: time for tasks that were cancelled or
  // dropped.
  double compute_seconds = 0;
  double wasted_seconds = 0;
  std::vector<double> worker_seconds;  // compute_seconds of each worker.
  std::vector<int64_t> pull_bytes, push_bytes;  // By shard.

  // Records that an update was decided.
  void Committed(const RecordCommit& commit, VirtualTime now);
  // Records compute time of a worker.
  void Spent(WorkerId worker, double seconds) {
    compute_seconds += seconds;
    worker_seconds[worker.value()] += seconds;
  }
  // Records that a task ended without being applied.
  void Ended(Outcome outcome);
};

}  // namespace sluice

#endif  // SLUICE_SIM_SIMULATION_WINDOW_H_
