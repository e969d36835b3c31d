#ifndef SLUICE_COMMON_DELAY_VALIDATION_H_
#define SLUICE_COMMON_DELAY_VALIDATION_H_

#include "common/job_checker.h"
#include "proto/job.pb.h"

namespace sluice {

// Adds the violations of job.proto's bounds in a job's `delays`.
void CheckDelays(const proto::Delays& delays, Checker* check);

}  // namespace sluice

#endif  // SLUICE_COMMON_DELAY_VALIDATION_H_
