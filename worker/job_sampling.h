#ifndef SLUICE_WORKER_JOB_SAMPLING_H_
#define SLUICE_WORKER_JOB_SAMPLING_H_

#include "common/resolved_job.h"
#include "worker/data/batch_samples.h"

namespace sluice {

// How the job cuts its training split into mini-batches. STATIC sharding has
// one partition for each worker.
inline BatchSampling JobSampling(const ResolvedJob& resolved) {
  const proto::Job& job = resolved.job;
  BatchSampling sampling;
  sampling.seed = job.seed();
  sampling.train_samples = resolved.data.train_samples;
  sampling.batch_size = job.data().batch_size();
  sampling.shuffle = job.data().shuffle();
  sampling.partitions = job.data().sharding() == proto::Data::STATIC
                            ? job.cluster().workers()
                            : 1;
  return sampling;
}

}  // namespace sluice

#endif  // SLUICE_WORKER_JOB_SAMPLING_H_
