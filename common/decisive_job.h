#ifndef SLUICE_COMMON_DECISIVE_JOB_H_
#define SLUICE_COMMON_DECISIVE_JOB_H_

#include "proto/job.pb.h"

namespace sluice {

// The job without what processes may differ in, as it changes no bit of an
// update: cluster.coordinator, worker.gpus, output, evaluation, delays,
// checkpoint, timeouts, and a micro_batch that splits nothing. REQUIRES:
// defaults are filled in.
proto::Job DecisiveJob(const proto::Job& job);

// The job without what may change from one generation of a run to the next, as
// it changes no bit of the updates that both make: what DecisiveJob leaves out,
// and name, stop, limits, and the numbers of shards and, unless data is STATIC,
// of workers. REQUIRES: as above.
proto::Job LastingJob(const proto::Job& job);

}  // namespace sluice

#endif  // SLUICE_COMMON_DECISIVE_JOB_H_
