#ifndef SLUICE_COMMON_AWAIT_FOR_H_
#define SLUICE_COMMON_AWAIT_FOR_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace sluice {

// Like mu->AwaitWithTimeout(condition, timeout), but by CLOCK_MONOTONIC. Waits
// until `condition` holds, at most for `timeout`, and returns whether it holds.
// `mu` is held before and after the call and released while it waits.
//
// Abseil's own function (20220623) waits for a point of the wall clock. If that
// clock is put back by an hour, a wait of one second takes an hour, and
// heartbeats stop. AwaitFor is exact to about a millisecond. One thread of the
// process, which never ends, serves all waits.
bool AwaitFor(absl::Mutex* mu, const absl::Condition& condition,
              absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

}  // namespace sluice

#endif  // SLUICE_COMMON_AWAIT_FOR_H_
