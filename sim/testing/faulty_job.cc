#include "sim/testing/faulty_job.h"

#include "sim/testing/reference_weights.h"

namespace sluice {

ResolvedJob FaultyJob(const CoordinatorOptions& options) {
  const ShardOptions shard = ReferenceWeights::OptionsOf(
      ReferenceWeights::Layout(options.shards), 0, options.staged_gradients);
  ResolvedJob job{.job = {},
                  .data = {},
                  .model = {},
                  .layout = shard.layout,
                  .fingerprint = "faulty"};
  job.job.mutable_cluster()->set_workers(options.workers);
  job.job.mutable_cluster()->set_shards(options.shards);
  // The policy does not affect where a run can resume.
  job.job.mutable_sync()->set_policy(proto::ASYNC);
  job.job.mutable_sync()->set_k(1);
  job.job.mutable_sync()->set_local_steps(options.sync.local_steps);
  *job.job.mutable_optimizer() = shard.optimizer;
  job.job.mutable_data()->set_batch_size(options.batch_size);
  if (options.stop.epochs.has_value()) {
    job.job.mutable_stop()->set_epochs(*options.stop.epochs);
  }
  job.job.mutable_limits()->set_chunk_bytes(
      static_cast<int32_t>(shard.chunk_bytes));
  job.data.train_samples = options.train_samples;
  return job;
}

}  // namespace sluice
