#include "worker/rejoin_policy.h"

namespace sluice {

bool ShardIsLost(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsFailedPrecondition(status) ||
         absl::IsCancelled(status);
}

bool RejoinPolicy::Rejoins(const LifeEnd& end) {
  if (end.finish.has_value() || end.told_to_leave) return false;
  if (end.delivered) fruitless_ = 0;
  if (absl::IsAborted(end.session)) {
    return end.worked.ok() || ShardIsLost(end.worked);
  }
  if (end.worked.ok() || !ShardIsLost(end.worked)) return false;
  // It was waited for long enough, while the coordinator counted it as living.
  if (absl::IsUnavailable(end.worked)) return false;
  return ++fruitless_ <= kMostFruitless;
}

}  // namespace sluice
