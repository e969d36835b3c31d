#ifndef SLUICE_COMMON_JOB_ANY_NUMBER_H_
#define SLUICE_COMMON_JOB_ANY_NUMBER_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace sluice {

// Whether any number will do for a worker of this job, so that the coordinator
// may give it one (--worker=any). kFailedPrecondition: it must know its number;
// names the field and what depends on it.
absl::Status CheckAnyNumber(const proto::Job& job);

}  // namespace sluice

#endif  // SLUICE_COMMON_JOB_ANY_NUMBER_H_
