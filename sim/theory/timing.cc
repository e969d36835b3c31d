// The confidence interval is by batch means: consecutive updates depend on each
// other, but the means of long stretches of updates are nearly independent. The
// window is cut into 32 stretches of equal length, and Student's t is applied
// to their means. 3,200 updates, for example, are 32 stretches of 100.
//
// MeasureTiming doubles the window until the interval is narrow enough.
#include "sim/theory/timing.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "sim/simulation_options_from_job.h"

namespace sluice {
namespace {

constexpr double kSecond = 1e9;  // In nanoseconds.

// The number of stretches.
constexpr int kStretches = 32;
// Student's t for 99% and kStretches - 1 degrees of freedom.
constexpr double kStudent = 2.744;

double HalfWidth(const std::vector<VirtualTime>& commits) {
  const int64_t length =
      (static_cast<int64_t>(commits.size()) - 1) / kStretches;
  if (length == 0) return HUGE_VAL;
  double sum = 0, squares = 0;
  for (int i = 0; i < kStretches; ++i) {
    const double mean =
        static_cast<double>(commits[(i + 1) * length] - commits[i * length]) /
        static_cast<double>(length) / kSecond;
    sum += mean;
    squares += mean * mean;
  }
  const double mean = sum / kStretches;
  const double variance =
      std::max(0.0, squares / kStretches - mean * mean) / (kStretches - 1);
  return kStudent * std::sqrt(variance);
}

double Share(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace

Timing TimingOf(const SimulationWindow& window, int workers,
                const TaskUse& task) {
  SLUICE_CHECK(!window.commits.empty());
  Timing timing;
  const double seconds =
      static_cast<double>(window.end - window.begin) / kSecond;
  timing.updates = static_cast<int64_t>(window.commits.size()) - 1;
  if (timing.updates > 0) {
    timing.mean_update_time =
        static_cast<double>(window.commits.back() - window.commits.front()) /
        static_cast<double>(timing.updates) / kSecond;
  }
  timing.half_width = HalfWidth(window.commits);
  const GradientCounts& counts = window.gradients;
  timing.mean_staleness = Share(static_cast<double>(window.staleness_sum),
                                static_cast<double>(counts.applied));
  timing.staleness_histogram = window.staleness_histogram;
  timing.started = window.started;
  const int64_t unapplied =
      counts.cancelled + counts.dropped + counts.rejected + counts.lost;
  timing.wasted = Share(static_cast<double>(unapplied),
                        static_cast<double>(window.started));
  timing.wasted_time = Share(window.wasted_seconds, window.compute_seconds);
  timing.idle =
      std::max(0.0, 1 - Share(window.compute_seconds, seconds * workers));
  for (const double computed : window.worker_seconds) {
    timing.worker_idle.push_back(std::max(0.0, 1 - Share(computed, seconds)));
  }
  timing.scaling_efficiency = Share(
      task.seconds * static_cast<double>(counts.applied), seconds * workers);
  timing.task = task;
  timing.pull_bytes = window.pull_bytes;
  timing.push_bytes = window.push_bytes;
  for (int64_t bytes : window.pull_bytes) {
    timing.pull_bytes_per_second.push_back(Share(bytes, seconds));
  }
  for (int64_t bytes : window.push_bytes) {
    timing.push_bytes_per_second.push_back(Share(bytes, seconds));
  }
  timing.events = window.events;
  return timing;
}

proto::Job InTheLongRun(const proto::Job& job) {
  proto::Job endless = job;
  endless.mutable_evaluation()->set_enabled(false);
  endless.clear_stop();
  proto::Sync* sync = endless.mutable_sync();
  sync->set_warm_start_updates(0);
  if (const auto& changes = job.sync().k_schedule().by_version().change();
      !changes.empty()) {
    sync->set_k(changes.rbegin()->k());
  }
  if (sync->has_k_schedule()) sync->mutable_k_schedule()->mutable_fixed();
  return endless;
}

absl::StatusOr<Timing> MeasureTiming(const ResolvedJob& job,
                                     const TimingOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(ClusterSimulation::Options made,
                          SimulationOptionsFromJob(job));
  made.coordinator.job = InTheLongRun(made.coordinator.job);
  const int workers = job.job.cluster().workers();
  const TaskUse task = MeanTask(made);
  ClusterSimulation simulation(std::move(made));
  SLUICE_RETURN_IF_ERROR(
      simulation.Run([&] { return simulation.decided() >= 10 * workers; }));
  simulation.BeginWindow();
  // Two rounds of all workers at least: with constant times each round falls at
  // one instant.
  int64_t updates =
      std::min<int64_t>(options.most_updates, std::max(32 * 100, 2 * workers));
  while (true) {
    const auto& commits = simulation.window().commits;
    SLUICE_RETURN_IF_ERROR(simulation.Run([&] {
      const auto measured = static_cast<int64_t>(commits.size());
      if (options.progress) options.progress(measured);
      return measured > updates;
    }));
    Timing timing = TimingOf(simulation.window(), workers, task);
    if (timing.mean_update_time == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "delays.compute: ", timing.updates,
          " updates take no time, as the draws of a worker that nobody waits "
          "for are all below 1 ns"));
    }
    if (timing.updates >= options.most_updates ||
        timing.half_width <= options.precision * timing.mean_update_time) {
      return timing;
    }
    updates = std::min(options.most_updates, 2 * updates);
  }
}

}  // namespace sluice
