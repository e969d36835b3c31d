#ifndef SLUICE_WORKER_RUN_EVALUATOR_H_
#define SLUICE_WORKER_RUN_EVALUATOR_H_

#include <string>

#include "absl/status/status.h"
#include "common/resolved_job.h"

namespace sluice {

// Evaluates for the job's coordinator until the run is over; the final weights
// go into `run_dir`/weights.safetensors unless it is empty. OK: the run reached
// its end, or this process was told to stop. Else says what went wrong, naming
// the culprit. Blocks.
// REQUIRES: StopSignal::Block was called.
absl::Status RunEvaluator(const ResolvedJob& job, const std::string& run_dir);

}  // namespace sluice

#endif  // SLUICE_WORKER_RUN_EVALUATOR_H_
