#ifndef SLUICE_WORKER_TASK_CANCEL_TOKEN_H_
#define SLUICE_WORKER_TASK_CANCEL_TOKEN_H_

#include <atomic>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/await_for.h"

namespace sluice {

// Tells a running computation that nobody wants its result any more. Looked
// at between layers. Thread-safe.
class CancelToken {
 public:
  void Cancel() { Set(true); }
  void Reset() { Set(false); }
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // Blocks for `time`, or until it is cancelled: says whether it is.
  bool WaitFor(absl::Duration time) const {
    absl::MutexLock lock(&mu_);
    return AwaitFor(&mu_, absl::Condition(this, &CancelToken::cancelled), time);
  }

 private:
  void Set(bool cancelled) {
    absl::MutexLock lock(&mu_);
    cancelled_.store(cancelled, std::memory_order_release);
  }

  // Held to write, so that who waits notices; reading needs no lock.
  mutable absl::Mutex mu_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace sluice

#endif  // SLUICE_WORKER_TASK_CANCEL_TOKEN_H_
