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
  int64_t version = 0;  // That its gradient made, when applied.
};

struct ActivityTimeline {
  double end = 0;                // Nothing is drawn beyond.
  std::vector<int64_t> workers;  // Those that are shown, ascending.
  int64_t all_workers = 0;       // Those of the whole log.
  std::vector<Bar> bars;         // By task, each before the wait after it.
  std::vector<double> updates;   // When each was decided.
};

// When the first task was issued, by the log's own time; 0 without any.
double BeginOf(const CommitLog& log);

// Until when the first `updates` updates were decided, or all, if there are
// fewer; 0 without any. In seconds since the first task.
double EndOfUpdate(const CommitLog& log, int64_t updates);

// Who computed and who waited until `end`, for the first `max_workers`
// workers.
//
// A worker computes (pulling and pushing included) from its task until every
// shard holds its gradient, or until the task is cancelled. It waits from then
// until its next task, unless that belongs to another life of the worker, or
// it was cancelled and never came back: then it may have been dead, which the
// log does not tell, and no bar is drawn.
ActivityTimeline TimelineOf(const CommitLog& log, double end, int max_workers);

}  // namespace sluice

#endif  // SLUICE_CLI_PLOT_ACTIVITY_TIMELINE_H_
