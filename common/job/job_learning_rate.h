#ifndef SLUICE_COMMON_JOB_JOB_LEARNING_RATE_H_
#define SLUICE_COMMON_JOB_JOB_LEARNING_RATE_H_

#include <cstdint>

#include "common/job/learning_rate.h"
#include "proto/job.pb.h"

namespace sluice {

// The samples of so many epochs, of `train_samples` each. Whole where rounding
// alone keeps it from that: 1.1 epochs of 50,000 samples are 55,000.
double SamplesOfEpochs(double epochs, int64_t train_samples);

// The rate of `optimizer` and `schedule` of a resolved job, whose epochs become
// samples: its training split has `train_samples`.
LearningRateOptions JobLearningRate(const proto::Job& job,
                                    int64_t train_samples);

}  // namespace sluice

#endif  // SLUICE_COMMON_JOB_JOB_LEARNING_RATE_H_
