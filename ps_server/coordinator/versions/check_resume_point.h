#ifndef SLUICE_PS_SERVER_COORDINATOR_VERSIONS_CHECK_RESUME_POINT_H_
#define SLUICE_PS_SERVER_COORDINATOR_VERSIONS_CHECK_RESUME_POINT_H_

#include "absl/status/status.h"
#include "ps_server/coordinator/core/coordinator_options.h"

namespace sluice {

// Whether a run of `options` can begin at its `resume`, if it has one.
// kFailedPrecondition: one of its stop conditions has been reached, says which.
// kInvalidArgument: the snapshot is of another job, or contradicts itself.
absl::Status CheckResumePoint(const CoordinatorOptions& options);

// The same for a run that only has to come to its end, which it may have
// reached: no kFailedPrecondition.
absl::Status CheckRecoveryPoint(const CoordinatorOptions& options);

// Whether going on with `options` leaves out mini-batches that `before`, the
// job with which the run came to its `resume`, had no more of: its last task
// may have had fewer than sync.local_steps, and would count for all of them in
// a longer run. kFailedPrecondition says how many. REQUIRES: there is a
// `resume`, and sync.local_steps are the same.
absl::Status CheckLastTask(const proto::Job& before,
                           const CoordinatorOptions& options);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_VERSIONS_CHECK_RESUME_POINT_H_
