#ifndef SLUICE_COMMON_DATA_VALIDATION_H_
#define SLUICE_COMMON_DATA_VALIDATION_H_

#include "common/job_checker.h"
#include "proto/job.pb.h"

namespace sluice {

// Adds the violations of job.proto's bounds in a job's `data`. `evaluated`: the
// job's evaluation needs a test split.
void CheckData(const proto::Data& data, bool evaluated, Checker* check);

}  // namespace sluice

#endif  // SLUICE_COMMON_DATA_VALIDATION_H_
