#ifndef SLUICE_SIM_THEORY_TIMING_H_
#define SLUICE_SIM_THEORY_TIMING_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/job/resolved_job.h"
#include "sim/cluster_simulation.h"
#include "sim/theory/pipeline_time.h"

namespace sluice {

// How a policy uses a cluster in the long run. All times are virtual.
struct Timing {
  int64_t updates = 0;
  double mean_update_time = 0;  // 0: no update was made.
  // Half the width of its 99% confidence interval, by batch means. Infinite:
  // there were too few updates.
  double half_width = 0;
  double mean_staleness = 0;
  std::vector<int64_t> staleness_histogram;  // Applied gradients by staleness.
  int64_t started = 0;                       // Tasks.
  // Tasks that ended without being applied (cancelled, dropped, rejected,
  // lost), as a share of the tasks started, and their compute time as a share
  // of all compute time.
  double wasted = 0;
  double wasted_time = 0;
  // Share of the workers' time in which they do not compute.
  double idle = 0;
  std::vector<double> worker_idle;  // The same for each worker.
  // t1 / tn, where t1 is the mean time of one worker's task and tn the time in
  // which n workers get n gradients applied. 1 means that nobody waits and
  // nothing is wasted. Above 1 fast workers do more than their share of the
  // work.
  double scaling_efficiency = 0;
  // A task of mean length, without its pulling and pushing.
  TaskUse task;
  // By shard.
  std::vector<double> pull_bytes_per_second, push_bytes_per_second;
  std::vector<int64_t> pull_bytes, push_bytes;
  int64_t events = 0;
};

struct TimingOptions {
  // Measures until half the interval is below this share of the mean ...
  double precision = 0.005;
  // ... or until this many updates, whichever comes first; at least 33.
  int64_t most_updates = 4000000;
  // Called after each update, with how many have been measured; may be null.
  std::function<void(int64_t updates)> progress = nullptr;
};

// Evaluates a window. `task` is one of mean length, its seconds are t1.
// The time per update is that from its first commit to its last. REQUIRES: at
// least one commit.
Timing TimingOf(const SimulationWindow& window, int workers,
                const TaskUse& task);

// The job as its cluster runs in the long run: without an end and evaluations,
// with the warm start behind it, and with the K that stays, which is the last
// of sync.k_schedule.by_version. With `adaptive` it is the first K, since there
// are no losses that K could follow.
proto::Job InTheLongRun(const proto::Job& job);

// Simulates the timing of `job`'s cluster in the long run (InTheLongRun)
// without computing gradients. The first ten tasks of each worker are left out,
// while the workers get out of step. Errors are those of
// SimulationOptionsFromJob and ClusterSimulation::Run's.
absl::StatusOr<Timing> MeasureTiming(const ResolvedJob& job,
                                     const TimingOptions& options);

}  // namespace sluice

#endif  // SLUICE_SIM_THEORY_TIMING_H_
