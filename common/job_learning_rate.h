#ifndef SLUICE_COMMON_JOB_LEARNING_RATE_H_
#define SLUICE_COMMON_JOB_LEARNING_RATE_H_

#include "common/learning_rate.h"
#include "common/resolved_job.h"

namespace sluice {

// The rate of `optimizer` and `schedule` of a job, whose epochs become samples
// of its training split.
LearningRateOptions JobLearningRate(const ResolvedJob& job);

}  // namespace sluice

#endif  // SLUICE_COMMON_JOB_LEARNING_RATE_H_
