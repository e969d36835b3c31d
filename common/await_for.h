#ifndef SLUICE_COMMON_AWAIT_FOR_H_
#define SLUICE_COMMON_AWAIT_FOR_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace sluice {

// As mu->AwaitWithTimeout(condition, timeout), but by CLOCK_MONOTONIC: waits
// until `condition` holds, at most `timeout`, and says whether it does. `mu`
// is held before and after, and let go meanwhile.
//
// Abseil's own (20220623) waits for a point of the wall clock: when somebody
// puts that back by an hour, a wait of a second takes an hour, and a heartbeat
// is not sent. Exact to about a millisecond; one thread of the process, which
// lives for ever, rings for all.
bool AwaitFor(absl::Mutex* mu, const absl::Condition& condition,
              absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

}  // namespace sluice

#endif  // SLUICE_COMMON_AWAIT_FOR_H_
