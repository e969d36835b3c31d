#ifndef SLUICE_PS_SERVER_COORDINATOR_REPORT_RUN_SUMMARY_H_
#define SLUICE_PS_SERVER_COORDINATOR_REPORT_RUN_SUMMARY_H_

#include <string>

#include "proto/job.pb.h"
#include "ps_server/coordinator/core/job_state.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// summary.json of a run that is over: a JSON object of name, test_accuracy,
// test_loss, test_version (of the final version; null where there is none),
// version, epochs, samples, seconds, samples_per_second, weights_sha256,
// gradients {applied, cancelled, dropped, rejected, lost}, batches_left_out,
// losses_not_finite, mean_staleness, checkpoints (null where the job has none),
// policy, workers, shards, reason, failure (empty when the run reached its
// end). Ends with a newline.
std::string RunSummary(const proto::Job& job, const JobState& state,
                       const FinishRun& finish);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_REPORT_RUN_SUMMARY_H_
