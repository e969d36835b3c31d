#ifndef SLUICE_SIM_SIMULATED_RUN_H_
#define SLUICE_SIM_SIMULATED_RUN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/job/resolved_job.h"
#include "ps_server/coordinator/core/job_state.h"
#include "ps_server/decisions/events.h"
#include "sim/local_training.h"
#include "sim/theory/timing.h"

namespace sluice {

// Ends a run as soon as an evaluation reaches it; unset: nothing does.
struct SimulationTarget {
  std::optional<double> accuracy;  // On the test split, at least this.
  std::optional<double> loss;      // On the test split, at most this.
};

// kInvalidArgument: no evaluation of the job could say that it is reached.
absl::Status CheckTarget(const ResolvedJob& job,
                         const SimulationTarget& target);

struct SimulatedRunOptions {
  std::string run_dir;  // Empty: no files are written.
  SimulationTarget target;
  // Called after each update with the virtual seconds since the start. If it
  // returns true, the run is cut off there, without an end of its own. Unset:
  // never.
  std::function<bool(double seconds)> enough = nullptr;
  // Splits of the job's data that are already open.
  LocalTraining::Splits splits = {};
};

// A run in virtual time, to its end or to where it was cut off.
struct SimulatedRun {
  struct Measured {
    double seconds = 0;  // Virtual, from the start.
    Evaluation evaluation;
  };

  Timing timing;   // Over the whole run.
  JobState state;  // At the end of the run.
  // Gradients that were computed. The other tasks that were started were
  // cancelled before they were delivered.
  int64_t computed = 0;
  std::vector<Measured> evaluations;
  // The first evaluation that reached the target.
  std::optional<Measured> reached;
};

// Runs the job in virtual time with the production coordinator, shards, trainer
// and evaluator. Losses, accuracies and weights are real. The run folder is
// that of a real run, with virtual time; a run that fails leaves one too. The
// same job gives the same bytes.
//
// kInvalidArgument: the job does not measure what the target needs. kInternal:
// the run failed, or the cluster stands still. kOutOfRange: virtual time has
// come to its end. Also errors of SimulationOptionsFromJob, of the job's files
// and of RunFiles.
absl::StatusOr<SimulatedRun> SimulateRun(const ResolvedJob& job,
                                         const SimulatedRunOptions& options);

}  // namespace sluice

#endif  // SLUICE_SIM_SIMULATED_RUN_H_
