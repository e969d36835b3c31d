#ifndef SLUICE_PS_SERVER_COORDINATOR_POLICY_ROUND_FOLD_H_
#define SLUICE_PS_SERVER_COORDINATOR_POLICY_ROUND_FOLD_H_

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "ps_server/coordinator/policy/batch_schedule.h"
#include "ps_server/coordinator/policy/gradient_weights.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// Which gradients of a SYNC update the shards may add up before all are ready
// (FoldsGradients): each will be in it, with a weight that is known beforehand,
// so those that are ready may go as far as none is missing before them.
//
// Cost O(1) per call, and O(what it takes or returns) where that is a list.
//
// Not thread-safe: call from the coordinator.
class RoundFold {
 public:
  // An update of these gradients follows, of the blocks from `first` on, of
  // which nothing is ready.
  void Begin(BlockId first, const std::vector<WeighedGradient>& gradients);

  // The place of the block's gradient. REQUIRES: it is in the round.
  int64_t TurnOf(BlockId block) const { return block - first_; }
  // REQUIRES: the same, and it has not been ready.
  void Ready(BlockId block, const GradientKey& key);
  // Those that may be folded now, behind those that were returned before; none
  // while they are fewer than `least`.
  std::vector<CommitEntry> Take(int least);

  // How many Take has returned, of this round.
  int taken() const { return taken_; }
  int gradients() const { return static_cast<int>(entries_.size()); }
  // Of the whole update, in double, in summation order.
  double total_weight() const { return total_weight_; }

 private:
  BlockId first_;
  std::vector<CommitEntry> entries_;  // Of each; the key once it is ready.
  std::vector<bool> ready_;
  double total_weight_ = 0;
  int taken_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_POLICY_ROUND_FOLD_H_
