#ifndef SLUICE_PS_SERVER_COORDINATOR_TESTING_JOBS_H_
#define SLUICE_PS_SERVER_COORDINATOR_TESTING_JOBS_H_

#include <string>

#include "proto/job.pb.h"
#include "ps_server/coordinator/core/coordinator_options.h"

namespace sluice {

// A job with the defaults of all fields that a coordinator reads, but for
// these: one sample in a mini-batch, room for one gradient, and no evaluator.
// It is not valid as a job file, because it has no data and no model.
CoordinatorOptions PlainJob();

// A small job for tests: `workers` workers and two more that may join, two
// shards, ten mini-batches of four samples, one epoch, K (or P, under SYNC) =
// `k`.
CoordinatorOptions SmallJob(proto::Policy policy, int workers, int k);

// Sets the fields of the job that `fields`, a textproto, names.
void Set(CoordinatorOptions* options, const std::string& fields);

proto::Staleness StalenessBound(int bound, proto::Staleness::Action action);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_TESTING_JOBS_H_
