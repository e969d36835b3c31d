#ifndef SLUICE_COMMON_DECISIVE_JOB_H_
#define SLUICE_COMMON_DECISIVE_JOB_H_

#include "proto/job.pb.h"

namespace sluice {

// The job without what cannot change a bit of the weights: where things are
// written and listen, how often is evaluated, and limits that are only times.
// Processes may differ in that.
proto::Job DecisiveJob(const proto::Job& job);

}  // namespace sluice

#endif  // SLUICE_COMMON_DECISIVE_JOB_H_
