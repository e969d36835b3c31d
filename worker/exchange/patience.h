#ifndef SLUICE_WORKER_EXCHANGE_PATIENCE_H_
#define SLUICE_WORKER_EXCHANGE_PATIENCE_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace sluice {

// Decides whether and when a failed call to one shard is repeated. Pure: the
// time comes in.
//
//   UNAVAILABLE "NOT_YET ...",    the shard lives: repeated for as long as the
//   RESOURCE_EXHAUSTED            caller wants to wait
//   other UNAVAILABLE,            the shard cannot be reached: repeated with
//   DEADLINE_EXCEEDED             backoff, for `rejoin_timeout` in all
//   anything else                 not repeated
//
// One per call. Not thread-safe: call under the owner's lock.
class Patience {
 public:
  explicit Patience(absl::Duration rejoin_timeout)
      : rejoin_timeout_(rejoin_timeout) {}

  // When to repeat the call that has just failed with `status`; nullopt: not
  // again.
  std::optional<absl::Time> AfterFailure(const absl::Status& status,
                                         absl::Time now);

 private:
  // Doubles from call to call. A second is what a person hardly notices and
  // costs a shard that comes back nothing.
  static constexpr absl::Duration kFirstBackoff = absl::Milliseconds(20);
  static constexpr absl::Duration kMaxBackoff = absl::Seconds(1);

  // Constant after construction.
  absl::Duration rejoin_timeout_;

  absl::Duration backoff_ = kFirstBackoff;
  absl::Time unreachable_since_ = absl::InfiniteFuture();
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_PATIENCE_H_
