#ifndef SLUICE_PS_SERVER_COORDINATOR_POLICY_SYNC_OPTIONS_H_
#define SLUICE_PS_SERVER_COORDINATOR_POLICY_SYNC_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "absl/time/time.h"

namespace sluice {

enum class PolicyKind {
  kSync,
  kKSync,
  kKBatchSync,
  kAsync,
  kKAsync,
  kKBatchAsync,
};

enum class StalenessAction { kWait, kDrop, kCancel, kDownweight };

struct StalenessBound {
  int bound = 0;  // Versions; with kWait delivered gradients.
  StalenessAction action = StalenessAction::kDrop;
};

// How K changes during the run (k_schedule.h).
struct FixedK {};
struct KByVersion {
  struct Change {
    int64_t from_version = 0;
    int k = 1;
  };
  std::vector<Change> changes;  // In order of from_version.
};
struct AdaptiveK {
  int max_k = 1;
  int smoothing_updates = 20;
};
using KScheduleOptions = std::variant<FixedK, KByVersion, AdaptiveK>;

enum class OnShortage { kWait, kShrink };
enum class OnBadGradient { kFail, kSkip };

// The synchronisation policy and what is orthogonal to it; meaning and bounds
// of each field: Sync in proto/job.proto.
struct SyncOptions {
  PolicyKind policy = PolicyKind::kSync;
  int k = 1;                     // Of the K policies, at the start.
  KScheduleOptions k_schedule;   // The same.
  int gradients_per_update = 1;  // Of SYNC.
  std::optional<StalenessBound> staleness;
  int local_steps = 1;
  OnShortage on_shortage = OnShortage::kWait;
  absl::Duration shortage_timeout = absl::Seconds(60);
  OnBadGradient on_bad_gradient = OnBadGradient::kFail;
  int warm_start_updates = 0;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_POLICY_SYNC_OPTIONS_H_
