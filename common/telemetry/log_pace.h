#ifndef SLUICE_COMMON_TELEMETRY_LOG_PACE_H_
#define SLUICE_COMMON_TELEMETRY_LOG_PACE_H_

#include <algorithm>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace sluice {

// Keeps lines of the log apart that others may cause in any number.
// Thread-safe.
class LogPace {
 public:
  // One line in every such time; of those that come after a pause, `burst` at
  // once.
  explicit LogPace(absl::Duration every, int burst = 1)
      : every_(every), burst_(burst) {}

  // Whether to log a line at `now`, which never decreases.
  bool Due(absl::Time now) {
    absl::MutexLock lock(&mu_);
    if (now + (burst_ - 1) * every_ < next_) return false;
    next_ = std::max(next_, now) + every_;
    return true;
  }

 private:
  const absl::Duration every_;
  const int burst_;
  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  absl::Time next_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
};

}  // namespace sluice

#endif  // SLUICE_COMMON_TELEMETRY_LOG_PACE_H_
