#ifndef SLUICE_CLI_LAUNCH_TRAIN_RUN_H_
#define SLUICE_CLI_LAUNCH_TRAIN_RUN_H_

#include <iosfwd>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/job/resolved_job.h"

namespace sluice {

struct TrainOptions {
  // Empty: the job's output.run_dir, else runs/NAME-N.
  std::string run_dir;
  // Resumes the run in `run_dir` (set then) from its newest whole checkpoint.
  bool resume = false;
  // Empty: that of the run in `run_dir`, or a new one.
  std::string run_id = {};
  bool timeline = false;  // As ClusterPlan's.
  std::string bin_dir;    // As ClusterPlan's.
  // As ClusterPlan's; the folder "operator" in it is this process's own.
  std::string tls = {};
  std::string http = {};                  // As ClusterPlan's.
  int http_linger_s = 0;                  // The same.
  std::vector<std::string> command = {};  // As ClusterPlan's.
  // Gets the text of summary.json at the end, if the run has left one; null:
  // `out` describes it.
  std::ostream* summary = nullptr;
  int columns = 0;  // Width of the terminal `out`; 0: it is none.
};

// Trains `job` with shards, workers and evaluator as children of this process.
// Blocks until they have ended. Progress and result go to `out`, what went
// wrong to `err`. Returns the exit status: 0 the run reached its end, 1 it
// failed, 2 the run folder cannot be used, 130 the user had it killed.
int RunTraining(ResolvedJob job, const TrainOptions& options, Clock* clock,
                std::ostream& out, std::ostream& err);

}  // namespace sluice

#endif  // SLUICE_CLI_LAUNCH_TRAIN_RUN_H_
