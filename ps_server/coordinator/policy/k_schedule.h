#ifndef SLUICE_PS_SERVER_COORDINATOR_POLICY_K_SCHEDULE_H_
#define SLUICE_PS_SERVER_COORDINATOR_POLICY_K_SCHEDULE_H_

#include <cstdint>

#include "common/ids.h"
#include "proto/job.pb.h"

namespace sluice {

// K at a training loss `ratio` times smaller than the one that K0 = `k0` is
// meant for (AdaSync: Dutta, Wang, Joshi 2021, "Slow and Stale Gradients Can
// Win the Race", section on adaptive synchronicity), rounded up:
//
//   K_BATCH_SYNC, K_BATCH_ASYNC   K = k0 sqrt(ratio)
//   K_SYNC, K_ASYNC               K^2 / (P - K) = ratio k0^2 / (P - k0)
//
// P is `workers`; with k0 = P the second gives P. Derived in docs/policies.md.
//
// Numerics in double; a result within 1e-9 of a whole number is that number,
// so that rounding adds no gradient. At most INT_MAX.
// REQUIRES: k0 >= 1, ratio >= 1; k0 <= workers under K_SYNC and K_ASYNC.
int AdaptedK(proto::Policy policy, int k0, double ratio, int workers);

// K, the gradients that an update takes if nothing is short:
// gradients_per_update under SYNC, 1 under ASYNC, else `k` as `k_schedule`
// changes it. K is a function of these fields and of what has been decided
// alone, so that the same decisions give the same K. Nothing else holds it.
//
// Adaptive: F0 is the mean loss of the first n = smoothing_updates updates,
// which are made with K0. Then F <- F + (loss - F) / n with each update, and K
// is AdaptedK at F0 / F, at most max_k, but never less than before: the noise
// of F does not move it to and fro.
//
// Not thread-safe: call from the coordinator.
class KSchedule {
 public:
  // `sync` is resolved; `workers` are those of the job.
  KSchedule(const proto::Sync& sync, int workers);

  // Of the update that starts from the newest version.
  int k() const { return k_; }

  // `version` has been decided; `loss` is the mean over the update's samples.
  // A loss that is not finite says nothing and is passed over.
  void Decided(Version version, double loss);

  // What an adaptive K has come to.
  struct State {
    int k = 1;
    int64_t losses = 0;
    double first_loss = 0;  // F0, once n losses have come.
    double loss = 0;        // F; before that their mean.

    bool operator==(const State&) const = default;
  };
  State state() const { return {k_, losses_, first_loss_, loss_}; }
  // Goes on from `version`, where it had come to `state`.
  void Restore(Version version, const State& state);

 private:
  void FollowVersion(Version version);
  void FollowLoss(const proto::AdaptiveK& schedule, double loss);

  // Constant after construction.
  const proto::Sync sync_;
  const int workers_;

  int k_;
  int64_t losses_ = 0;
  double first_loss_ = 0;  // As in State.
  double loss_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_POLICY_K_SCHEDULE_H_
