// A round of three gradients, of the blocks 6 to 8:
//
//   Begin(6, ...)         weights 1/3 each
//   Ready(7), Take(1)     nothing: 6 is missing
//   Ready(6), Take(1)     6 and 7
//   Ready(8)              the update is due, and its Commit brings 8
#include "ps_server/coordinator/policy/round_fold.h"

#include <algorithm>

#include "common/status_macros.h"
#include "proto/job.pb.h"

namespace sluice {

void RoundFold::Begin(BlockId first,
                      const std::vector<WeighedGradient>& gradients) {
  first_ = first;
  entries_.clear();
  ready_.assign(gradients.size(), false);
  total_weight_ = 0;
  taken_ = 0;
  // Nothing is stale under SYNC: no action is set.
  for (const float weight : GradientWeights(gradients, proto::Staleness())) {
    entries_.push_back({GradientKey(), weight});
    total_weight_ += weight;
  }
}

void RoundFold::Ready(BlockId block, const GradientKey& key) {
  const int64_t turn = TurnOf(block);
  SLUICE_CHECK(turn >= 0 && turn < gradients() && !ready_[turn]);
  ready_[turn] = true;
  entries_[turn].key = key;
}

std::vector<CommitEntry> RoundFold::Take(int least) {
  const auto begin = ready_.begin() + taken_;
  const auto end = std::find(begin, ready_.end(), false);
  if (end - begin < least) return {};
  const auto first = entries_.begin() + taken_;
  taken_ += static_cast<int>(end - begin);
  return {first, entries_.begin() + taken_};
}

}  // namespace sluice
