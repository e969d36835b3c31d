#ifndef SLUICE_WORKER_EXCHANGE_FLOATS_ON_THE_WAY_H_
#define SLUICE_WORKER_EXCHANGE_FLOATS_ON_THE_WAY_H_

#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace sluice {

// What a transport reads of memory that is not its own: it may do so for longer
// than the call lasts.
//
// Thread-safe.
class FloatsOnTheWay {
 public:
  FloatsOnTheWay() = default;
  FloatsOnTheWay(const FloatsOnTheWay&) = delete;
  FloatsOnTheWay& operator=(const FloatsOnTheWay&) = delete;
  // Blocks until nothing is read any more. REQUIRES: that will be soon, as the
  // connections are closed.
  ~FloatsOnTheWay() {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](int* read) { return *read == 0; }, &read_));
  }

  // Something is read from now on, until what is returned has been called.
  std::function<void()> Begin() {
    absl::MutexLock lock(&mu_);
    ++read_;
    return [this] {
      absl::MutexLock lock(&mu_);
      --read_;
    };
  }

 private:
  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  int read_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_FLOATS_ON_THE_WAY_H_
