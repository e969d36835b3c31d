#ifndef SLUICE_COMMON_LOCK_ORDER_H_
#define SLUICE_COMMON_LOCK_ORDER_H_

namespace sluice {

// From here on nobody watches in which order this process takes its mutexes.
// Abseil does where the library itself was built without NDEBUG, as Debian's
// is: then every Lock looks into one table of the process, under one lock,
// which takes a tenth of the time that a small update spends in a shard. Does
// nothing in builds that check (-c dbg), which the sanitizers are.
//
// Call in `main` of a daemon, before other threads exist.
void LeaveLockOrderUnwatched();

}  // namespace sluice

#endif  // SLUICE_COMMON_LOCK_ORDER_H_
