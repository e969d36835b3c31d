#ifndef SLUICE_SIM_SIMULATED_RUN_H_
#define SLUICE_SIM_SIMULATED_RUN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/resolved_job.h"
#include "ps_server/coordinator/events.h"
#include "ps_server/coordinator/job_state.h"
#include "sim/local_training.h"
#include "sim/timing.h"

namespace sluice {

// What ends a run as soon as an evaluation reaches it; unset: nothing.
struct SimulationTarget {
  std::optional<double> accuracy;  // At least so much of the test split.
  std::optional<double> loss;      // Of the test split, at most.
};

struct SimulatedRunOptions {
  std::string run_dir;  // Empty: nothing is kept.
  SimulationTarget target;
  // Asked after each update, with the virtual seconds since the start; true:
  // the run is cut off there, without an end of its own. Unset: never.
  std::function<bool(double seconds)> enough = nullptr;
  // What is open already of the job's data.
  LocalTraining::Splits splits = {};
};

// A run in virtual time, to its end or to where it was cut off.
struct SimulatedRun {
  struct Measured {
    double seconds = 0;  // Virtual, from the start.
    Evaluation evaluation;
  };

  Timing timing;   // Of the whole run.
  JobState state;  // At its end.
  // Gradients that were computed; the others of those started were cancelled
  // before they were delivered.
  int64_t computed = 0;
  std::vector<Measured> evaluations;
  // The first that reached the target.
  std::optional<Measured> reached;
};

// Runs the job in virtual time with the production coordinator, shards, trainer
// and evaluator: losses, accuracies and weights are what they would really be.
// The run folder is a real run's, with virtual time for time; a run that fails
// leaves one, too. The same job gives the same bytes.
//
// kInvalidArgument: the target needs what the job does not measure; errors of
// SimulationOptionsFromJob, of the job's files and of RunFiles. kInternal: the
// run failed, or the cluster stands still.
absl::StatusOr<SimulatedRun> SimulateRun(const ResolvedJob& job,
                                         const SimulatedRunOptions& options);

}  // namespace sluice

#endif  // SLUICE_SIM_SIMULATED_RUN_H_
