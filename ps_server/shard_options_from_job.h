#ifndef SLUICE_PS_SERVER_SHARD_OPTIONS_FROM_JOB_H_
#define SLUICE_PS_SERVER_SHARD_OPTIONS_FROM_JOB_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/job/initial_weights.h"
#include "common/job/resolved_job.h"
#include "common/job/stage_plan.h"
#include "common/wire/job_wire_types.h"
#include "ps_server/shard/optimizer.h"
#include "ps_server/shard/shard.h"

namespace sluice {

// What the shards' arrays are cut into.
inline int64_t ChunkFloats(const ResolvedJob& job) {
  return job.job.limits().chunk_bytes() / static_cast<int64_t>(sizeof(float));
}

// What a stored version holds for each weight, as Shard::Hold names it.
inline std::vector<std::string> StoredArrays(const ResolvedJob& job) {
  std::vector<std::string> arrays = Optimizer::StateNames(job.job.optimizer());
  arrays.insert(arrays.begin(), "weights");
  return arrays;
}

// What shard `id` needs to know of a valid job.
inline ShardOptions ShardOptionsFromJob(
    const ResolvedJob& resolved, ShardId id,
    std::shared_ptr<const InitialWeights> initial_weights) {
  const proto::Limits& limits = resolved.job.limits();
  return {.id = id,
          .initial_weights =
              [weights = std::move(initial_weights)](ParameterRange range) {
                return weights->Read(range);
              },
          .layout = resolved.layout,
          .optimizer = resolved.job.optimizer(),
          .chunk_bytes = limits.chunk_bytes(),
          .max_held = limits.max_held(),
          .staged_gradients = limits.staged_gradients(),
          .push_type = JobWireTypes(resolved.job).push,
          .member_cuts = MemberCuts(resolved),
          .digest_every = resolved.job.output().digest_every_updates()};
}

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_OPTIONS_FROM_JOB_H_
