#ifndef SLUICE_COMMON_DECISIVE_JOB_H_
#define SLUICE_COMMON_DECISIVE_JOB_H_

#include "proto/job.pb.h"

namespace sluice {

// The job without what processes may differ in, as it changes no bit of an
// update: cluster.coordinator, output, evaluation, delays, checkpoint, timeouts,
// and a micro_batch that splits nothing.
// REQUIRES: defaults are filled in.
proto::Job DecisiveJob(const proto::Job& job);

}  // namespace sluice

#endif  // SLUICE_COMMON_DECISIVE_JOB_H_
