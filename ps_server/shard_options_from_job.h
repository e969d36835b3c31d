#ifndef SLUICE_PS_SERVER_SHARD_OPTIONS_FROM_JOB_H_
#define SLUICE_PS_SERVER_SHARD_OPTIONS_FROM_JOB_H_

#include "common/ids.h"
#include "common/resolved_job.h"
#include "ps_server/shard/shard.h"

namespace sluice {

// What shard `id` needs to know of a valid job. Pure.
inline ShardOptions ShardOptionsFromJob(const ResolvedJob& resolved,
                                        ShardId id) {
  const proto::Limits& limits = resolved.job.limits();
  return {.id = id,
          .seed = resolved.job.seed(),
          .layout = resolved.layout,
          .optimizer = resolved.job.optimizer(),
          .chunk_bytes = limits.chunk_bytes(),
          .max_held = limits.max_held(),
          .staged_gradients = limits.staged_gradients()};
}

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_OPTIONS_FROM_JOB_H_
