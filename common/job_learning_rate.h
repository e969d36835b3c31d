#ifndef SLUICE_COMMON_JOB_LEARNING_RATE_H_
#define SLUICE_COMMON_JOB_LEARNING_RATE_H_

#include <cstdint>

#include "common/learning_rate.h"
#include "proto/job.pb.h"

namespace sluice {

// The rate of `optimizer` and `schedule` of a resolved job, whose epochs become
// samples: its training split has `train_samples`.
LearningRateOptions JobLearningRate(const proto::Job& job,
                                    int64_t train_samples);

}  // namespace sluice

#endif  // SLUICE_COMMON_JOB_LEARNING_RATE_H_
