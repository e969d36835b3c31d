// An adaptive K never falls; one by version does what its list says.
//
// K0 = 4, for a mean loss F0 = 2 over the first updates:
//
//   F       F0/F   K_BATCH_SYNC: 4 sqrt(F0/F)   K_SYNC with P = 16
//   2        1       4                            4
//   1        2       6                            6
//   0.5      4       8                            7
//   0.02   100      40, or max_k                 15, and never above P
#include "ps_server/coordinator/policy/k_schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ps_server/coordinator/policy/policy_rules.h"

namespace sluice {
namespace {

// The positive root of K^2 = c (P - K), in the form without cancellation.
double RootOfKSync(double c, double workers) {
  // Beyond this the root is P in double, and c * c may overflow.
  if (c > 1e100) return workers;
  return 2 * c * workers / (c + std::sqrt(c * c + 4 * c * workers));
}

int RoundUp(double k) {
  const double up = std::ceil(k - 1e-9);
  constexpr int kMost = std::numeric_limits<int>::max();
  return up < kMost ? static_cast<int>(up) : kMost;
}

int InitialK(const proto::Sync& sync) {
  if (sync.policy() == proto::SYNC) return sync.gradients_per_update();
  return sync.policy() == proto::ASYNC ? 1 : sync.k();
}

}  // namespace

int AdaptedK(proto::Policy policy, int k0, double ratio, int workers) {
  const double k = k0;
  if (RulesOf(policy).counts != PolicyRules::Counts::kOnePerWorker) {
    return RoundUp(k * std::sqrt(ratio));
  }
  if (k0 >= workers) return workers;
  return RoundUp(RootOfKSync(ratio * k * k / (workers - k), workers));
}

KSchedule::KSchedule(const proto::Sync& sync, int workers)
    : sync_(sync), workers_(workers), k_(InitialK(sync)) {
  FollowVersion(Version(0));
}

void KSchedule::Decided(Version version, double loss) {
  FollowVersion(version);
  if (sync_.k_schedule().has_adaptive()) {
    FollowLoss(sync_.k_schedule().adaptive(), loss);
  }
}

void KSchedule::Restore(Version version, const State& state) {
  FollowVersion(version);
  if (!sync_.k_schedule().has_adaptive()) return;
  // The bound may have changed with the number of workers.
  k_ = std::max(k_, std::min(state.k, sync_.k_schedule().adaptive().max_k()));
  losses_ = state.losses;
  first_loss_ = state.first_loss;
  loss_ = state.loss;
}

void KSchedule::FollowVersion(Version version) {
  for (const proto::KChange& change :
       sync_.k_schedule().by_version().change()) {
    if (change.from_version() > version.value()) break;
    k_ = change.k();
  }
}

void KSchedule::FollowLoss(const proto::AdaptiveK& schedule, double loss) {
  if (!std::isfinite(loss)) return;
  const int64_t averaged =
      std::min<int64_t>(++losses_, schedule.smoothing_updates());
  loss_ += (loss - loss_) / static_cast<double>(averaged);
  if (losses_ < schedule.smoothing_updates()) return;
  if (losses_ == schedule.smoothing_updates()) first_loss_ = loss_;
  if (loss_ >= first_loss_) return;
  // A loss of 0 or less is infinitely far down.
  const double ratio = loss_ > 0 ? first_loss_ / loss_ : HUGE_VAL;
  const int k = AdaptedK(sync_.policy(), sync_.k(), ratio, workers_);
  k_ = std::max(k_, std::min(k, schedule.max_k()));
}

}  // namespace sluice
