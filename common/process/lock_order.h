#ifndef SLUICE_COMMON_PROCESS_LOCK_ORDER_H_
#define SLUICE_COMMON_PROCESS_LOCK_ORDER_H_

namespace sluice {

// Stops Abseil from watching the order in which this process takes its mutexes.
// A library that was built without NDEBUG, as Debian's was, looks into one
// table of the process at every Lock, under one lock: a tenth of the time that
// a small update spends in a shard. Builds that check (-c dbg, so those of the
// sanitizers) go on watching.
//
// Call in `main` of a daemon, before other threads exist.
void LeaveLockOrderUnwatched();

}  // namespace sluice

#endif  // SLUICE_COMMON_PROCESS_LOCK_ORDER_H_
