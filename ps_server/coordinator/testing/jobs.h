#ifndef SLUICE_PS_SERVER_COORDINATOR_TESTING_JOBS_H_
#define SLUICE_PS_SERVER_COORDINATOR_TESTING_JOBS_H_

#include "ps_server/coordinator/core/coordinator_options.h"

namespace sluice {

// A small job for tests: `workers` workers and two more that may join, two
// shards, ten mini-batches of four samples, one epoch, K (or P, under SYNC) =
// `k`.
inline CoordinatorOptions SmallJob(PolicyKind policy, int workers, int k) {
  CoordinatorOptions options;
  options.workers = workers;
  options.max_workers = workers + 2;
  options.shards = 2;
  options.sync.policy = policy;
  options.sync.k = k;
  options.sync.gradients_per_update = k;
  options.train_samples = 40;
  options.batch_size = 4;
  options.staged_gradients = k + workers;
  options.stop.epochs = 1;
  return options;
}

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_TESTING_JOBS_H_
