#ifndef SLUICE_SIM_REPLAY_PLAN_H_
#define SLUICE_SIM_REPLAY_PLAN_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "proto/commit_log.pb.h"
#include "ps_server/coordinator/commit_log_file.h"

namespace sluice {

// What the commit log of one generation says of its bits, in the order in which
// it is replayed.
struct ReplayPlan {
  Generation generation;
  Version begin;                          // That it restored; 0 for the first.
  std::vector<proto::LogCommit> commits;  // Versions begin + 1, + 2, ...
  // Rate of the local steps of each task; only where there are several.
  absl::flat_hash_map<GradientKey, double> local_rates;
  // For each shard: the versions that gradients were computed at, with the last
  // update that needs them.
  std::vector<std::map<Version, Version>> last_use;
  // By (version, shard).
  std::map<std::pair<Version, ShardId>, std::vector<uint64_t>> digests;
};

GradientKey KeyOf(Generation generation, const proto::LogEntry& entry);

// Checks that every version is there, once and in order, and that each gradient
// was computed at versions that there were, on as many shards as there are.
// kDataLoss says where it does not.
absl::StatusOr<ReplayPlan> PlanReplay(const CommitLog& log, int shards);

}  // namespace sluice

#endif  // SLUICE_SIM_REPLAY_PLAN_H_
