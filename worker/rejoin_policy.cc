#include "worker/rejoin_policy.h"

namespace sluice {

bool ShardIsLost(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsFailedPrecondition(status) ||
         absl::IsCancelled(status);
}

absl::Status SessionOfMember(const absl::Status& worked, bool link_broken) {
  if (!worked.ok() && !link_broken) return absl::OkStatus();
  return absl::AbortedError("this life of the worker is over");
}

bool RejoinPolicy::Rejoins(const LifeEnd& end) {
  if (end.finish.has_value() || end.told_to_leave) return false;
  if (end.delivered) {
    fruitless_ = 0;
    proven_ = true;
  }
  if (end.gradient_broken) return ++fruitless_ <= most_broken();
  if (end.link_broken || absl::IsAborted(end.session)) {
    return end.worked.ok() || ShardIsLost(end.worked);
  }
  if (end.worked.ok() || !ShardIsLost(end.worked)) return false;
  // It was waited for long enough, while the coordinator counted it as living.
  if (absl::IsUnavailable(end.worked)) return false;
  return ++fruitless_ <= kMostFruitless;
}

absl::Duration RejoinPolicy::pause() const {
  return fruitless_ < 2 ? absl::ZeroDuration()
                        : absl::Seconds(1 << (fruitless_ - 2));
}

}  // namespace sluice
