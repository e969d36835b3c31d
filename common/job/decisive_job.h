#ifndef SLUICE_COMMON_JOB_DECISIVE_JOB_H_
#define SLUICE_COMMON_JOB_DECISIVE_JOB_H_

#include "proto/job.pb.h"

namespace sluice {

// The job without the fields in which processes may differ because they change
// no bit of an update: cluster.coordinator, worker.gpus,
// data.jpeg.threads, wire.shared_memory, output, evaluation, delays,
// checkpoint, timeouts, and a micro_batch that splits nothing. REQUIRES:
// defaults are filled in.
proto::Job DecisiveJob(const proto::Job& job);

// The job without the fields that may change from one generation of a run to
// the next, whose job is `other`, because they change no bit of the updates
// that both make: those that DecisiveJob leaves out, and name, stop, limits,
// the number of shards and, unless the data of both is STATIC, the number of
// workers; with it, under K_SYNC and K_ASYNC, a K and an adaptive max_k that
// are this number in both. REQUIRES: defaults are filled in.
proto::Job LastingJob(const proto::Job& job, const proto::Job& other);

}  // namespace sluice

#endif  // SLUICE_COMMON_JOB_DECISIVE_JOB_H_
