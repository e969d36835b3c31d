// Every policy is the same bookkeeping; its PolicyRules and StalenessRules
// answer the questions.
//
// What holds between calls:
//
//  - `ready_` holds the gradients that were delivered and have no verdict, in
//    order of arrival: the first to arrive is the first in an update.
//  - What else is counted (startable_, contributors_, counts_, open_,
//    sources_) follows from `workers_` and `warm_up_` alone. Update() is the
//    only place where a Worker changes, and it renews that worker's share of
//    each count, so that no call has to look at all workers.
//  - An update is due when as many gradients are ready as Needed() says: K, but
//    never more than can still come. So no policy waits for what cannot come.
//
// K_ASYNC with K = 2 and three workers, each with a task:
//
//   0 delivers          ready 0      0 waits for a verdict: not startable
//   2 delivers          ready 0, 2   Needed 2: due, NextUpdate is {0, 2}
//   Decided(0, then 2)  ready        0 and 2 may start; 1 goes on, now stale
//
// If 1 has the last mini-batch of the run, one gradient can still come: Needed
// is 1, and the last update takes what is left.
#include "ps_server/coordinator/policy/sync_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice {

using Counts = PolicyRules::Counts;
using AfterDelivery = PolicyRules::AfterDelivery;

SyncPolicy::SyncPolicy(const proto::Sync& sync, int workers, int partitions)
    : sync_(sync),
      rules_(RulesOf(sync.policy())),
      static_(partitions > 1),
      // Synchronous gradients are never stale.
      stale_(RulesOf(rules_.synchronous() ? proto::Staleness::ACTION_UNSPECIFIED
                                          : sync.staleness().action())),
      k_schedule_(sync, workers),
      // Under SYNC every partition takes part in every version.
      warm_up_(sync.warm_start_updates() > 0 &&
               !(static_ && rules_.counts == Counts::kEveryBatchOfTheVersion)) {
  if (stale_.waits) counts_.emplace(sync.staleness().bound());
  if (!static_) return;
  for (int p = 0; p < partitions; ++p) {
    Count(workers_[WorkerId(p)], +1);
  }
}

// ---- Workers ----

// Keeps every derived count in step with one worker's change.
template <typename Change>
void SyncPolicy::Update(WorkerId id, Change change) {
  const auto [it, inserted] = workers_.try_emplace(id);
  Worker& worker = it->second;
  if (!inserted) Count(worker, -1);
  change(worker);
  Count(worker, +1);
  const bool waits = rules_.after_delivery == AfterDelivery::kWaits;
  const bool contributes =
      worker.present && (CanDeliver(worker) || (waits && worker.undecided > 0));
  if (contributes != worker.contributes) {
    worker.contributes = contributes;
    if (contributes) {
      contributors_.insert(id);
    } else {
      contributors_.erase(id);
    }
  }
  if (counts_.has_value()) {
    if (worker.present && CanDeliver(worker)) {
      counts_->Add(id);
    } else {
      counts_->Remove(id);
    }
  }
  Place(id);
  ChooseLone();
  Release();
}

void SyncPolicy::Count(const Worker& w, int sign) {
  const bool source = CanDeliver(w) && w.undecided == 0;
  if (source) sources_ += sign;
  if (source && w.present) open_ += sign;
}

bool SyncPolicy::MayStart(WorkerId id, const Worker& w) const {
  if (!w.present || w.suspect || w.busy || !w.supplied) return false;
  if (warm_up_ && lone_ != id) return false;
  return rules_.after_delivery == AfterDelivery::kGoesOn || w.undecided == 0;
}

void SyncPolicy::Place(WorkerId id) {
  const bool may_start = MayStart(id, workers_[id]);
  const bool ahead =
      may_start && !warm_up_ && counts_.has_value() && counts_->Ahead(id);
  if (ahead) counts_->Park(id);
  if (may_start && !ahead) {
    startable_.insert(id);
  } else {
    startable_.erase(id);
  }
}

void SyncPolicy::Release() {
  if (!counts_.has_value()) return;
  for (WorkerId id : counts_->TakeReleased()) Place(id);
}

void SyncPolicy::ChooseLone() {
  if (!warm_up_) return;
  if (lone_.has_value() && contributors_.contains(*lone_)) return;
  lone_.reset();
  if (contributors_.empty()) return;
  lone_ = *contributors_.begin();
  Place(*lone_);
}

void SyncPolicy::WorkerJoined(WorkerId worker) {
  Update(worker, [](Worker& w) {
    w.present = true;
    w.suspect = false;
  });
}

void SyncPolicy::WorkerLost(WorkerId worker) {
  Update(worker, [](Worker& w) {
    w.present = false;
    w.suspect = false;
  });
}

void SyncPolicy::SetSuspect(WorkerId worker, bool suspect) {
  Update(worker, [=](Worker& w) { w.suspect = suspect; });
}

void SyncPolicy::SetSupplied(WorkerId worker, bool supplied) {
  const auto it = workers_.find(worker);
  if (it != workers_.end() && it->second.supplied == supplied) return;
  Update(worker, [=](Worker& w) { w.supplied = supplied; });
}

void SyncPolicy::TaskOpened(WorkerId worker) {
  Update(worker, [](Worker& w) { w.busy = true; });
}

void SyncPolicy::TaskEnded(WorkerId worker) {
  Update(worker, [](Worker& w) { w.busy = false; });
}

// ---- Gradients ----

std::optional<std::string> SyncPolicy::TooStale(Version base,
                                                Version version) const {
  if (!stale_.refuses.has_value()) return std::nullopt;
  const int64_t staleness = version - base;
  if (staleness <= sync_.staleness().bound()) return std::nullopt;
  return absl::StrCat("staleness ", staleness, " exceeds the bound ",
                      sync_.staleness().bound());
}

Outcome SyncPolicy::StaleOutcome() const {
  // What is outdated under a synchronous policy is cancelled.
  return stale_.refuses.value_or(Outcome::kCancelled);
}

Version SyncPolicy::RevokeBelow(Version version) const {
  if (rules_.synchronous()) return version;
  if (stale_.revokes) return version - sync_.staleness().bound();
  return Version(0);  // None is from below it.
}

void SyncPolicy::Delivered(const GradientKey& key, Version base) {
  ready_.emplace(arrivals_, Gradient{key, base});
  arrival_.emplace(key, arrivals_++);
  if (counts_.has_value()) counts_->Delivered(key.worker);
  Update(key.worker, [](Worker& w) { ++w.undecided; });
}

std::vector<GradientKey> SyncPolicy::Outdated(Version version) const {
  std::vector<GradientKey> keys;
  for (const auto& [arrival, gradient] : ready_) {
    if ((rules_.synchronous() && gradient.base < version) ||
        TooStale(gradient.base, version).has_value()) {
      keys.push_back(gradient.key);
    }
  }
  return keys;
}

void SyncPolicy::Decided(const GradientKey& key) {
  const auto it = arrival_.find(key);
  SLUICE_CHECK(it != arrival_.end());
  ready_.erase(it->second);
  arrival_.erase(it);
  Update(key.worker, [](Worker& w) { --w.undecided; });
}

// ---- Decisions ----

int64_t SyncPolicy::StillPossible(int64_t batches) const {
  if (rules_.counts != Counts::kOnePerWorker || !static_) return batches;
  // One gradient from each partition that has something left; of those
  // without a worker only when somebody waits for it.
  return sync_.on_shortage() == proto::SHRINK ? open_ : sources_;
}

int64_t SyncPolicy::Needed(int64_t batches) const {
  const int64_t ready = static_cast<int64_t>(ready_.size());
  int64_t needed = std::min<int64_t>(k(), ready + StillPossible(batches));
  if (rules_.counts != Counts::kOnePerWorker) return needed;
  if (warm_up_) needed = std::min<int64_t>(needed, 1);
  if (sync_.on_shortage() == proto::SHRINK) {
    const int64_t living = static_cast<int64_t>(contributors_.size());
    needed = std::min(needed, std::max<int64_t>(living, 1));
  }
  return needed;
}

bool SyncPolicy::Due(int64_t batches) const {
  const int64_t ready = static_cast<int64_t>(ready_.size());
  return ready > 0 && ready >= Needed(batches);
}

std::vector<GradientKey> SyncPolicy::NextUpdate() const {
  std::vector<GradientKey> keys;
  keys.reserve(std::min<size_t>(ready_.size(), k()));
  for (const auto& [arrival, gradient] : ready_) {
    if (static_cast<int>(keys.size()) == k()) break;
    keys.push_back(gradient.key);
  }
  return keys;
}

bool SyncPolicy::Short(int64_t batches) const {
  if (rules_.counts != Counts::kOnePerWorker) return false;
  const int64_t can_come = std::min<int64_t>(open_, batches);
  const int64_t ready = static_cast<int64_t>(ready_.size());
  return ready + can_come < Needed(batches);
}

void SyncPolicy::Decided(Version version, double loss) {
  k_schedule_.Decided(version, loss);
  MaybeEndWarmUp(version);
}

void SyncPolicy::Restore(Version version, const KSchedule::State& k) {
  k_schedule_.Restore(version, k);
  MaybeEndWarmUp(version);
}

void SyncPolicy::MaybeEndWarmUp(Version version) {
  if (!warm_up_ || version.value() < sync_.warm_start_updates()) return;
  warm_up_ = false;
  if (counts_.has_value()) counts_->Level();
  for (const auto& [id, worker] : workers_) Place(id);
}

}  // namespace sluice
