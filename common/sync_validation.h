#ifndef SLUICE_COMMON_SYNC_VALIDATION_H_
#define SLUICE_COMMON_SYNC_VALIDATION_H_

#include "common/job_checker.h"
#include "proto/job.pb.h"

namespace sluice {

// Adds the violations of `job.sync()` to `check`.
void CheckSync(const proto::Job& job, Checker* check);

}  // namespace sluice

#endif  // SLUICE_COMMON_SYNC_VALIDATION_H_
