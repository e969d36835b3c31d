#ifndef SLUICE_PS_SERVER_COORDINATOR_REPORT_JOB_STATUS_H_
#define SLUICE_PS_SERVER_COORDINATOR_REPORT_JOB_STATUS_H_

#include "absl/time/time.h"
#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/core/job_state.h"

namespace sluice {

// How the run stands at `now`, for `sluice status`. The name and the rates,
// which the state does not hold, are left for the caller. Pure.
proto::JobStatus StatusToProto(const JobState& state, absl::Time now);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_REPORT_JOB_STATUS_H_
