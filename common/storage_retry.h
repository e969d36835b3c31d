#ifndef SLUICE_COMMON_STORAGE_RETRY_H_
#define SLUICE_COMMON_STORAGE_RETRY_H_

#include <functional>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock.h"

namespace sluice {

// When what the storage could not do is tried again: soon, then ever later, and
// no more when the time is over. Pure. Thread-compatible.
class StorageRetry {
 public:
  // `timeout`: limits.storage_timeout_s.
  StorageRetry(absl::Duration timeout, absl::Time now);

  // How long to wait after a try that ended with `status`. Nullopt: it is not
  // to be tried again, since another try would say the same (any status but
  // kUnavailable) or the time is over.
  std::optional<absl::Duration> PauseAfter(const absl::Status& status,
                                           absl::Time now);

 private:
  const absl::Time until_;
  absl::Duration pause_;
};

// A pause that another thread can end. Thread-safe.
class StoppablePause {
 public:
  // Blocks for so long; false: Stop was called, before or meanwhile.
  bool For(absl::Duration duration);
  void Stop();

 private:
  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

// Called before every further try, with why the last one failed; blocks for
// `pause`. False: the caller is to give up.
using PauseForStorage =
    std::function<bool(const absl::Status& why, absl::Duration pause)>;

// `status`, of the last try, with for how long there were any.
absl::Status StorageGivenUp(const absl::Status& status, absl::Duration timeout);

// What `read` returns (an absl::StatusOr), once that is not kUnavailable, or
// after the last try.
template <typename Read>
auto ReadWithRetries(absl::Duration timeout, Clock* clock,
                     const PauseForStorage& pause, const Read& read)
    -> decltype(read()) {
  StorageRetry retry(timeout, clock->Now());
  while (true) {
    auto result = read();
    if (!absl::IsUnavailable(result.status())) return result;
    const auto wait = retry.PauseAfter(result.status(), clock->Now());
    if (!wait.has_value()) return StorageGivenUp(result.status(), timeout);
    if (!pause(result.status(), *wait)) return result;
  }
}

}  // namespace sluice

#endif  // SLUICE_COMMON_STORAGE_RETRY_H_
