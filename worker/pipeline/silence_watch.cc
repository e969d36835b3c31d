#include "worker/pipeline/silence_watch.h"

#include "common/await_for.h"

namespace sluice {

void SilenceWatch::Open() {
  heard_ = false;
  absl::MutexLock lock(&mu_);
  closed_ = false;
}

void SilenceWatch::Close() {
  absl::MutexLock lock(&mu_);
  closed_ = true;
}

bool SilenceWatch::AwaitSilence() {
  absl::MutexLock lock(&mu_);
  for (int silent = 0; silent < kLooks;) {
    if (AwaitFor(&mu_, absl::Condition(&closed_), beat_)) return false;
    silent = heard_.exchange(false, std::memory_order_relaxed) ? 0 : silent + 1;
  }
  return true;
}

}  // namespace sluice
