#ifndef SLUICE_PS_SERVER_COORDINATOR_POLICY_SYNC_POLICY_H_
#define SLUICE_PS_SERVER_COORDINATOR_POLICY_SYNC_POLICY_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "common/ids.h"
#include "proto/job.pb.h"
#include "ps_server/coordinator/policy/delivery_counts.h"
#include "ps_server/coordinator/policy/k_schedule.h"
#include "ps_server/coordinator/policy/policy_rules.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// Decides when an update is due and of which gradients, and which workers may
// start a task: every policy, driven by its PolicyRules.
//
// It knows workers and ready gradients only; which mini-batch goes to whom is
// BatchSchedule's. `batches` is, throughout, the number of blocks that can
// still come in time for the next update: those that may go out and the live.
//
// Cost O(log(workers)) per call unless a comment says otherwise.
//
// Not thread-safe: call from the coordinator.
class SyncPolicy {
 public:
  // `sync` is resolved; `workers` are those of the job. `partitions` above 1:
  // STATIC data, worker w computes partition w only.
  SyncPolicy(const proto::Sync& sync, int workers, int partitions);

  const PolicyRules& rules() const { return rules_; }
  // What an update takes when nothing is short.
  int k() const { return k_schedule_.k(); }
  // For a snapshot; and to go on from one at `version`, where warm-up may be
  // over already. REQUIRES of Restore: nobody has joined.
  KSchedule::State k_state() const { return k_schedule_.state(); }
  void Restore(Version version, const KSchedule::State& k);

  // ---- Workers ----
  void WorkerJoined(WorkerId worker);
  void WorkerLost(WorkerId worker);
  // A suspect worker keeps its task and starts no other.
  void SetSuspect(WorkerId worker, bool suspect);
  // Whether its partition has something that may go out. True until said
  // otherwise.
  void SetSupplied(WorkerId worker, bool supplied);
  void TaskOpened(WorkerId worker);
  // The live task is over; for a delivery, call Delivered as well.
  void TaskEnded(WorkerId worker);

  // Those that may start a task now. With STATIC data each has something to
  // start.
  const absl::btree_set<WorkerId>& startable() const { return startable_; }

  // ---- Gradients ----
  // Why a gradient computed at `base` may no longer count when the model is at
  // `version`; nothing when it may. "staleness 9 exceeds the bound 8"
  std::optional<std::string> TooStale(Version base, Version version) const;
  // How a gradient that may not count any more ends.
  Outcome StaleOutcome() const;
  // Running tasks from below this version are to be revoked.
  Version RevokeBelow(Version version) const;

  void Delivered(const GradientKey& key, Version base);
  // Delivered gradients that cannot be part of an update of `version` any
  // more. O(delivered and undecided).
  std::vector<GradientKey> Outdated(Version version) const;
  // The gradient has a verdict; its worker is free.
  void Decided(const GradientKey& key);

  // ---- Decisions ----
  // Effective K: how many gradients the next update waits for.
  int64_t Needed(int64_t batches) const;
  bool Due(int64_t batches) const;
  // The gradients of the update: all that are here, but at most k(), first to
  // arrive first. REQUIRES: Due.
  std::vector<GradientKey> NextUpdate() const;
  // Whether the next update waits for workers that do not live.
  bool Short(int64_t batches) const;

  // `version` has been decided, with this mean loss over its samples (NaN:
  // none is known): K may change, and warm-up may be over. O(workers) when it
  // ends.
  void Decided(Version version, double loss);

 private:
  struct Worker {
    bool present = false;
    bool suspect = false;
    bool busy = false;
    bool supplied = true;
    bool contributes = false;  // Is among the contributors.
    int undecided = 0;         // Delivered gradients without a verdict.
  };
  struct Gradient {
    GradientKey key;
    Version base;
  };

  bool CanDeliver(const Worker& w) const { return w.supplied || w.busy; }
  bool MayStart(WorkerId id, const Worker& w) const;
  template <typename Change>
  void Update(WorkerId worker, Change change);
  void Count(const Worker& w, int sign);
  void Place(WorkerId id);
  void Release();
  void ChooseLone();
  void MaybeEndWarmUp(Version version);
  int64_t StillPossible(int64_t batches) const;

  // Constant after construction.
  const proto::Sync sync_;
  const PolicyRules rules_;
  const bool static_;
  const StalenessRules stale_;

  KSchedule k_schedule_;
  bool warm_up_;
  std::optional<WorkerId> lone_;  // Who computes during warm-up.

  absl::flat_hash_map<WorkerId, Worker> workers_;
  absl::btree_set<WorkerId> startable_;
  // Present and part of the next update: can deliver, or waits for it.
  std::set<WorkerId> contributors_;
  int open_ = 0;     // Present, can deliver, no undecided gradient.
  int sources_ = 0;  // The same, present or not.
  std::optional<DeliveryCounts> counts_;  // WAIT only.

  absl::btree_map<int64_t, Gradient> ready_;  // By arrival.
  absl::flat_hash_map<GradientKey, int64_t> arrival_;
  int64_t arrivals_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_POLICY_SYNC_POLICY_H_
