#ifndef SLUICE_WORKER_PIPELINE_SILENCE_WATCH_H_
#define SLUICE_WORKER_PIPELINE_SILENCE_WATCH_H_

#include <atomic>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace sluice {

// Says that nothing was heard from a link's other end for too long. Both ends
// say something every beat().
//
// It counts looks, four in that time, not seconds: a process that stood still
// itself has looked once meanwhile, and does not take its neighbour for gone.
//
// Thread-safe.
class SilenceWatch {
 public:
  explicit SilenceWatch(absl::Duration most) : beat_(most / kLooks) {}

  absl::Duration beat() const { return beat_; }

  // A new link begins.
  void Open();
  void Heard() { heard_.store(true, std::memory_order_relaxed); }
  void Close();
  // Waits until it is closed, or nothing was heard for kLooks looks: true.
  bool AwaitSilence();

 private:
  static constexpr int kLooks = 4;

  const absl::Duration beat_;

  std::atomic<bool> heard_ = false;
  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_PIPELINE_SILENCE_WATCH_H_
