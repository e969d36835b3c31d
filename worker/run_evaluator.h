#ifndef SLUICE_WORKER_RUN_EVALUATOR_H_
#define SLUICE_WORKER_RUN_EVALUATOR_H_

#include <string>

#include "absl/status/status.h"
#include "common/resolved_job.h"

namespace sluice {

// Evaluates for the job's coordinator until the run is over; the final weights
// go into weights.safetensors in `run_dir`, in output.run_dir when that is
// empty, nowhere when both are. OK: the run reached its end, or this process
// was told to stop. Else says what went wrong, naming the culprit. Blocks.
// REQUIRES: StopSignal::Block was called.
absl::Status RunEvaluator(const ResolvedJob& job, const std::string& run_dir);

}  // namespace sluice

#endif  // SLUICE_WORKER_RUN_EVALUATOR_H_
