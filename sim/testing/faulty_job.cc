#include "sim/testing/faulty_job.h"

#include "sim/testing/reference_weights.h"

namespace sluice {

ResolvedJob FaultyJob(const CoordinatorOptions& options) {
  const ShardOptions shard = ReferenceWeights::OptionsOf(
      ReferenceWeights::Layout(options.job.cluster().shards()), 0,
      options.job.limits().staged_gradients());
  ResolvedJob job{.job = options.job,
                  .data = {},
                  .model = {},
                  .layout = shard.layout,
                  .fingerprint = "faulty"};
  *job.job.mutable_optimizer() = shard.optimizer;
  job.job.mutable_limits()->set_chunk_bytes(
      static_cast<int32_t>(shard.chunk_bytes));
  job.data.train_samples = options.train_samples;
  return job;
}

}  // namespace sluice
