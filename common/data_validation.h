#ifndef SLUICE_COMMON_DATA_VALIDATION_H_
#define SLUICE_COMMON_DATA_VALIDATION_H_

#include "common/job_checker.h"
#include "proto/job.pb.h"

namespace sluice {

// Adds what violates the bounds of job.proto in a job's `data`, of which
// the job's evaluation wants a test split if `evaluated`.
void CheckData(const proto::Data& data, bool evaluated, Checker* check);

}  // namespace sluice

#endif  // SLUICE_COMMON_DATA_VALIDATION_H_
