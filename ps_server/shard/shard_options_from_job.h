#ifndef SLUICE_PS_SERVER_SHARD_SHARD_OPTIONS_FROM_JOB_H_
#define SLUICE_PS_SERVER_SHARD_SHARD_OPTIONS_FROM_JOB_H_

#include "common/ids.h"
#include "common/resolved_job.h"
#include "ps_server/shard/shard.h"

namespace sluice {

// REQUIRES: 0 <= shard < job.layout.shards().
ShardOptions ShardOptionsFromJob(const ResolvedJob& job, ShardId shard);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_SHARD_OPTIONS_FROM_JOB_H_
