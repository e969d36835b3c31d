#ifndef SLUICE_COMMON_TELEMETRY_SHARED_COUNTERS_H_
#define SLUICE_COMMON_TELEMETRY_SHARED_COUNTERS_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace sluice {

// Counters (counter_table.h) that some threads raise and others read.
// Thread-safe.
template <typename Counters>
class SharedCounters {
 public:
  void Add(int64_t Counters::*counter, int64_t n = 1) {
    absl::MutexLock lock(&mu_);
    counters_.*counter += n;
  }
  void Set(int64_t Counters::*counter, int64_t n) {
    absl::MutexLock lock(&mu_);
    counters_.*counter = n;
  }
  Counters Get() const {
    absl::MutexLock lock(&mu_);
    return counters_;
  }

 private:
  mutable absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  Counters counters_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sluice

#endif  // SLUICE_COMMON_TELEMETRY_SHARED_COUNTERS_H_
