#ifndef SLUICE_CLI_PLOT_ACTIVITY_TIMELINE_H_
#define SLUICE_CLI_PLOT_ACTIVITY_TIMELINE_H_

#include <cstdint>
#include <vector>

#include "ps_server/coordinator/log/commit_log_file.h"

namespace sluice {

// What a worker did for a while, by what came of it.
enum class Activity {
  kWaits,       // Has no task.
  kApplied,     // Computes a gradient that becomes part of an update.
  kCancelled,   // Computes, all of it or a part, and is cancelled.
  kDropped,     // Computes a gradient that is too stale.
  kRejected,    // Computes a gradient that is refused (NaN, wrong size).
  kUnfinished,  // Still computes when the log ends, or is lost in a recovery.
};

// Times are in seconds since the run's first task.
struct Bar {
  int64_t worker = 0;
  double begin = 0;
  double end = 0;
  Activity activity = Activity::kApplied;
  int64_t version = 0;  // The version that its gradient made, if applied.
};

struct ActivityTimeline {
  double end = 0;                // Where the picture ends.
  std::vector<int64_t> workers;  // Workers that are shown, ascending.
  int64_t all_workers = 0;       // How many workers the log has.
  std::vector<Bar> bars;         // By worker, each task before the wait after.
  std::vector<double> updates;   // When each update was decided.
};

// When the first task was issued, by the log's own time; 0 if there is none.
double BeginOf(const CommitLog& log);

// When the last of the first `updates` updates was decided, in seconds since
// the first task; 0 if there is none.
double EndOfUpdate(const CommitLog& log, int64_t updates);

// What the first `max_workers` workers did until `end`.
//
// A worker computes (which includes pulling and pushing) from its task until
// every shard holds its gradient, or until the task is cancelled. From then
// until its next task it waits. It may also have been dead, which the log does
// not tell: no bar is drawn if the next task belongs to another life of the
// worker, or if the worker was cancelled and never came back.
ActivityTimeline TimelineOf(const CommitLog& log, double end, int max_workers);

}  // namespace sluice

#endif  // SLUICE_CLI_PLOT_ACTIVITY_TIMELINE_H_
