#ifndef SLUICE_COMMON_SYNC_VALIDATION_H_
#define SLUICE_COMMON_SYNC_VALIDATION_H_

#include "common/job_checker.h"
#include "proto/job.pb.h"

namespace sluice {

// Adds the violations of job.proto's bounds in `job.sync()`, some of which
// depend on the rest of the job. REQUIRES: defaults are filled in.
void CheckSync(const proto::Job& job, Checker* check);

}  // namespace sluice

#endif  // SLUICE_COMMON_SYNC_VALIDATION_H_
