#ifndef SLUICE_WORKER_COMPUTE_JOB_SAMPLING_H_
#define SLUICE_WORKER_COMPUTE_JOB_SAMPLING_H_

#include "common/job/resolved_job.h"
#include "worker/compute/native_gradient.h"
#include "worker/data/batch_samples.h"

namespace sluice {

// How the job cuts its training split into mini-batches. STATIC sharding has
// one partition for each worker.
BatchSampling JobSampling(const ResolvedJob& resolved);

// How the job's mini-batches are read and computed.
NativeGradient::Options JobNativeGradient(const ResolvedJob& resolved);

// Samples of the largest forward and backward pass.
int JobMicroBatch(const ResolvedJob& resolved);

}  // namespace sluice

#endif  // SLUICE_WORKER_COMPUTE_JOB_SAMPLING_H_
