#ifndef SLUICE_WORKER_CANCEL_TOKEN_H_
#define SLUICE_WORKER_CANCEL_TOKEN_H_

#include <atomic>

namespace sluice {

// Tells a running computation that nobody wants its result any more. Looked
// at between layers. Thread-safe.
class CancelToken {
 public:
  void Cancel() { cancelled_.store(true, std::memory_order_release); }
  void Reset() { cancelled_.store(false, std::memory_order_release); }
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> cancelled_{false};
};

}  // namespace sluice

#endif  // SLUICE_WORKER_CANCEL_TOKEN_H_
