#ifndef SLUICE_CLI_EVALUATE_RUN_H_
#define SLUICE_CLI_EVALUATE_RUN_H_

#include <string>

#include "absl/status/statusor.h"
#include "worker/measure.h"

namespace sluice {

struct EvaluatedRun {
  Measurement test;
  std::string weights_sha256;  // As in the run's summary.json.
};

// Measures RUN_DIR/weights.safetensors on the test split of
// RUN_DIR/job.textproto, with the job's device, as the run's evaluator does:
// the same bits. The job's data files are looked for from the working folder,
// as the daemons did. Errors name the file and what was expected.
absl::StatusOr<EvaluatedRun> EvaluateRun(const std::string& run_dir);

// For a person, several lines; and one JSON object, whose names are those of
// summary.json: test_accuracy (null without labels), test_loss, test_samples,
// weights_sha256.
std::string DescribeEvaluation(const EvaluatedRun& run);
std::string EvaluationJson(const EvaluatedRun& run);

}  // namespace sluice

#endif  // SLUICE_CLI_EVALUATE_RUN_H_
