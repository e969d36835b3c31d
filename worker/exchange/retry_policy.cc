// Backoff is for a shard that is not there; how long it has been is counted
// from the first failure, until something of it is heard. With
// partition_timeout 600 s:
//
//    0.00 s   UNAVAILABLE     again at 0.02
//    0.02 s   UNAVAILABLE     again at 0.06, then 0.14, 0.30, ... each second
//   90    s   NOT_YET         it lives: again at 90.02; the count begins anew
//   91    s   UNAVAILABLE     again at 91.02
//  691.5  s   UNAVAILABLE     not again: silent for 600 s
//
// A worker that computes for a minute before it looks at a call that was due
// has tried nothing in that minute: LeftAlone takes it off the count.
#include "worker/exchange/retry_policy.h"

#include <algorithm>

#include "common/exchange_error.h"

namespace sluice {
namespace {

bool ShardLives(const absl::Status& status) {
  return absl::IsResourceExhausted(status) ||
         (absl::IsUnavailable(status) &&
          ReasonOf(status) == proto::ExchangeError::NOT_YET);
}

bool ShardSilent(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status);
}

}  // namespace

std::optional<absl::Time> RetryPolicy::AfterFailure(const absl::Status& status,
                                                    absl::Time now) {
  if (ShardLives(status)) {
    // The shard has parked the call for as long as it could, so there is
    // nothing to back off from; the pause only bounds a shard that answers
    // at once.
    Reached();
    return now + kFirstBackoff;
  }
  if (!ShardSilent(status)) return std::nullopt;
  unreachable_since_ = std::min(unreachable_since_, now);
  if (now - unreachable_since_ >= partition_timeout_) return std::nullopt;
  const absl::Time at = now + backoff_;
  backoff_ = std::min(2 * backoff_, kMaxBackoff);
  return at;
}

void RetryPolicy::Reached() {
  unreachable_since_ = absl::InfiniteFuture();
  backoff_ = kFirstBackoff;
}

void RetryPolicy::LeftAlone(absl::Duration time) { unreachable_since_ += time; }

}  // namespace sluice
