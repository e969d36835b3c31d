#ifndef SLUICE_COMMON_FILES_STORAGE_RETRY_H_
#define SLUICE_COMMON_FILES_STORAGE_RETRY_H_

#include <functional>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock.h"

namespace sluice {

// Decides when to try a failed storage operation again: soon at first, then
// less and less often, and not at all after the timeout. Pure.
// Thread-compatible.
class StorageRetry {
 public:
  // `timeout`: limits.storage_timeout_s.
  StorageRetry(absl::Duration timeout, absl::Time now);

  // How long to wait after an attempt that ended with `status`. Nullopt: do not
  // try again, because the result would be the same (any status but
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
  // Blocks for `duration`. False: Stop was called, before or during the pause.
  bool For(absl::Duration duration);
  void Stop();

 private:
  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

// Called before every further attempt with the error of the last one. Blocks
// for `pause`. False: the caller must give up.
using PauseForStorage =
    std::function<bool(const absl::Status& why, absl::Duration pause)>;

// `status` of the last attempt, extended by how long attempts were made.
absl::Status StorageGivenUp(const absl::Status& status, absl::Duration timeout);

inline const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

// Calls `read`, which returns an absl::Status or StatusOr, until the result is
// not kUnavailable, and returns the last result.
template <typename Read>
auto ReadWithRetries(absl::Duration timeout, Clock* clock,
                     const PauseForStorage& pause, const Read& read)
    -> decltype(read()) {
  StorageRetry retry(timeout, clock->Now());
  while (true) {
    auto result = read();
    const absl::Status& status = StatusOf(result);
    if (!absl::IsUnavailable(status)) return result;
    const auto wait = retry.PauseAfter(status, clock->Now());
    if (!wait.has_value()) return StorageGivenUp(status, timeout);
    if (!pause(status, *wait)) return result;
  }
}

}  // namespace sluice

#endif  // SLUICE_COMMON_FILES_STORAGE_RETRY_H_
