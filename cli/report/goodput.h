#ifndef SLUICE_CLI_REPORT_GOODPUT_H_
#define SLUICE_CLI_REPORT_GOODPUT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "ps_server/coordinator/log/commit_log_file.h"

// Goodput: the share of the workers' time whose samples are in the weights.
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

struct Goodput {
  Version version;                           // The newest.
  int64_t generations = 0;                   // That began.
  std::map<int64_t, WorkerSeconds> workers;  // Over all generations.
  // Logs that end with what is no whole record.
  std::vector<TornTail> torn;

  WorkerSeconds Total() const;
  // 0 to 1; 0 where no worker has had a task.
  double share() const;
};

// Of `logs`, one of each generation, ascending. What a later generation did not
// go on from is lost, however it had ended, as in the ledger (ledger.h). Pure.
Goodput MeasureGoodput(const std::vector<CommitLog>& logs);

// Of the run in `run_dir`, which may be over, have failed, been killed or still
// go on. kNotFound: there is no such folder, or it has no commit log. Errors of
// a log as ReadGeneration's.
absl::StatusOr<Goodput> ReadRunGoodput(const std::string& run_dir);

// For a person: a table of workers, and the sum in a sentence.
std::string DescribeGoodput(const Goodput& goodput);

// "goodput 83.4% (idle 12.0%, cancelled 4.6%)": the largest cause first, those
// of less than 0.05% left out. Empty where no worker has had a task.
std::string GoodputInShort(const Goodput& goodput);

// One JSON object and a newline.
std::string GoodputJson(const Goodput& goodput);

}  // namespace sluice

#endif  // SLUICE_CLI_REPORT_GOODPUT_H_
