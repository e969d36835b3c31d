#ifndef SLUICE_PS_SERVER_COORDINATOR_LOG_WORKER_TIME_H_
#define SLUICE_PS_SERVER_COORDINATOR_LOG_WORKER_TIME_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/ids.h"
#include "proto/commit_log.pb.h"
#include "ps_server/coordinator/log/task_spans.h"

// What the time of the workers was spent on, from the commit logs of a run.
namespace sluice {

// The time of workers, in seconds, by what became of it. Every second is in
// one place.
//
// A worker's time runs from its first task of a generation to the moment when
// the generation's log last knows of it: where the log ends, or where its last
// task ended if the worker was lost with it. A task's time runs from when it is
// issued until every shard holds its gradient or the task has ended, so it
// includes pulling and pushing.
struct WorkerSeconds {
  double applied = 0;     // Tasks whose gradient is in the newest version.
  double cancelled = 0;   // Tasks that were cancelled.
  double dropped = 0;     // Tasks whose gradient was dropped or rejected.
  double lost = 0;        // Tasks lost with their worker or their generation.
  double unfinished = 0;  // Tasks that have not ended where the log does.
  double idle = 0;        // The worker is there, and has no task.
  double absent = 0;      // From a life's last task to the next life's first.

  double Total() const;
};

// One row for each member, by the name that it has in every output.
struct TimeCause {
  const char* name;
  double WorkerSeconds::*seconds;
};
inline constexpr TimeCause kTimeCauses[] = {
    {"applied", &WorkerSeconds::applied},
    {"cancelled", &WorkerSeconds::cancelled},
    {"dropped", &WorkerSeconds::dropped},
    {"lost", &WorkerSeconds::lost},
    {"unfinished", &WorkerSeconds::unfinished},
    {"idle", &WorkerSeconds::idle},
    {"absent", &WorkerSeconds::absent},
};
static_assert(sizeof(WorkerSeconds) ==
              sizeof(kTimeCauses) / sizeof(TimeCause) * sizeof(double));

WorkerSeconds SumOf(const std::map<int64_t, WorkerSeconds>& workers);

// Adds up the time of a run's workers, record by record, and holds no more
// tasks than it is asked to and those that have not ended.
//
// Thread-compatible.
class WorkerTime {
 public:
  // `recent`: how many of a worker's tasks are held beyond the newest.
  explicit WorkerTime(size_t recent = 0) : recent_(recent) {}

  // What is read next is the log that begins with `header`. `kept`: up to
  // which version a later generation goes on from it, as KeptVersions says;
  // what came after that is lost, however it had ended, as in the ledger
  // (ledger.h). Nothing: it is the newest.
  void Begin(const proto::LogHeader& header, std::optional<Version> kept);
  void Read(const proto::LogRecord& record);

  // By worker, over all generations, as of the last record.
  std::map<int64_t, WorkerSeconds> Seconds() const;

  // The last tasks of each worker in the present generation, at least the
  // newest. Times are the log's.
  const TaskSpans& recent() const;
  double now() const { return now_; }  // The last record's time.

 private:
  // A generation, and how much of it the newest one rests on.
  struct Present {
    explicit Present(std::optional<Version> kept) : kept(kept) {}
    const std::optional<Version> kept;
    size_t kept_records = std::numeric_limits<size_t>::max();
    TaskSpansReader reader{/*origin=*/0};
    // Of each worker, how many of the reader's first tasks are in `seconds_`.
    std::map<int64_t, size_t> settled;
  };

  static double WorkerSeconds::*CauseOf(const TaskSpan& task,
                                        const Present& present);
  // Adds a task's time and what passes until `next`, or until the log's end.
  void Add(const TaskSpan& task, const TaskSpan* next,
           WorkerSeconds* time) const;
  // Takes in the worker's tasks that have ended and have a successor.
  void Settle(int64_t worker);

  size_t recent_;  // Constant after construction.
  double now_ = 0;
  std::unique_ptr<Present> present_;  // Null before the first.
  // Without the present generation's tasks that are not settled.
  std::map<int64_t, WorkerSeconds> seconds_;
};

// Of generations by their headers, ascending: the version of each from which
// later ones go on; the one that it began with where nothing of it was kept;
// nothing for the newest.
std::vector<std::optional<Version>> KeptVersions(
    const std::vector<proto::LogHeader>& headers);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_LOG_WORKER_TIME_H_
