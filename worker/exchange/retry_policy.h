#ifndef SLUICE_WORKER_EXCHANGE_RETRY_POLICY_H_
#define SLUICE_WORKER_EXCHANGE_RETRY_POLICY_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace sluice {

// Decides whether and when a failed call to one shard is repeated. Pure: the
// time comes in.
//
//   UNAVAILABLE, NOT_YET,         the shard lives: repeated for as long as the
//   RESOURCE_EXHAUSTED            caller wants to wait
//   other UNAVAILABLE,            the shard cannot be reached, or has ended the
//   DEADLINE_EXCEEDED, CANCELLED  call: repeated with backoff until nothing of
//                                 it has been heard for `partition_timeout`
//   anything else                 not repeated
//
// Whether such a shard still lives the coordinator says: the session of the
// caller ends when it does not, and the call is cancelled with it.
//
// One per call. Not thread-safe: call under the owner's lock.
class RetryPolicy {
 public:
  explicit RetryPolicy(absl::Duration partition_timeout)
      : partition_timeout_(partition_timeout) {}

  // When to repeat the call that has just failed with `status`; nullopt: not
  // again.
  std::optional<absl::Time> AfterFailure(const absl::Status& status,
                                         absl::Time now);
  // The shard has been heard of: it can be reached.
  void Reached();
  // Nobody was there for so long to repeat the call: that time does not count.
  void LeftAlone(absl::Duration time);

  // When a call that failed first found that the shard cannot be reached;
  // InfiniteFuture: none has, or it has been heard of since.
  absl::Time unreachable_since() const { return unreachable_since_; }

 private:
  // Doubles from call to call. A second is what a person hardly notices and
  // costs a shard that comes back nothing.
  static constexpr absl::Duration kFirstBackoff = absl::Milliseconds(20);
  static constexpr absl::Duration kMaxBackoff = absl::Seconds(1);

  // Constant after construction.
  absl::Duration partition_timeout_;

  absl::Duration backoff_ = kFirstBackoff;
  absl::Time unreachable_since_ = absl::InfiniteFuture();
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_RETRY_POLICY_H_
