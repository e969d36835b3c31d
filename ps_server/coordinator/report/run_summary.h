#ifndef SLUICE_PS_SERVER_COORDINATOR_REPORT_RUN_SUMMARY_H_
#define SLUICE_PS_SERVER_COORDINATOR_REPORT_RUN_SUMMARY_H_

#include <optional>
#include <string>

#include "proto/job.pb.h"
#include "ps_server/coordinator/core/job_state.h"
#include "ps_server/coordinator/log/worker_time.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// A job's `stop` in one line, "epochs: 20", as a summary says what was reached.
std::string StopText(const proto::Stop& stop);

// summary.json of a run that is over: a JSON object of the job's name, policy
// and size, the final evaluation, what was reached and how fast, all counters
// (core/counters.h), what the workers' time went into, and why the run ended.
// `time`: of all workers; nothing: it has not been measured. docs/protocol.md
// lists the members. Ends with a newline.
std::string RunSummary(const proto::Job& job, const JobState& state,
                       const FinishRun& finish,
                       const std::optional<WorkerSeconds>& time = {});

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_REPORT_RUN_SUMMARY_H_
