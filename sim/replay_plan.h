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
#include "ps_server/coordinator/log/commit_log_file.h"

namespace sluice {

// The part of one generation's commit log that determines its bits, in replay
// order.
struct ReplayPlan {
  Generation generation;
  Version begin;  // The version it restored; 0 for the first generation.
  std::vector<proto::LogCommit> commits;  // Versions begin + 1, + 2, ...
  // Learning rate of a task's local steps; only for tasks with several steps.
  absl::flat_hash_map<GradientKey, double> local_rates;
  // By shard: each version that a gradient was computed at, with the last
  // update that needs it.
  std::vector<std::map<Version, Version>> last_use;
  // By (version, shard).
  std::map<std::pair<Version, ShardId>, std::vector<uint64_t>> digests;
};

GradientKey KeyOf(Generation generation, const proto::LogEntry& entry);

// Checks that every version is there once and in order, and that each gradient
// was computed at versions that existed, on `shards` shards. kDataLoss names
// the first violation.
absl::StatusOr<ReplayPlan> PlanReplay(const CommitLog& log, int shards);

}  // namespace sluice

#endif  // SLUICE_SIM_REPLAY_PLAN_H_
