#include "ps_server/shard/shard_options_from_job.h"

namespace sluice {

ShardOptions ShardOptionsFromJob(const ResolvedJob& job, ShardId shard) {
  const proto::Limits& limits = job.job.limits();
  return {shard,
          job.job.seed(),
          job.layout,
          job.job.optimizer(),
          limits.chunk_bytes(),
          limits.max_held(),
          limits.staged_gradients()};
}

}  // namespace sluice
