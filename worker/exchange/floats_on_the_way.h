#ifndef SLUICE_WORKER_EXCHANGE_FLOATS_ON_THE_WAY_H_
#define SLUICE_WORKER_EXCHANGE_FLOATS_ON_THE_WAY_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/await_for.h"
#include "third_party/spdlog.h"

namespace sluice {

// What a transport reads of memory that is not its own: it may do so for longer
// than the call lasts.
//
// Thread-safe.
class FloatsOnTheWay {
 public:
  // `readers`: to whom it is sent, for the log.
  explicit FloatsOnTheWay(std::string readers) : readers_(std::move(readers)) {}
  FloatsOnTheWay(const FloatsOnTheWay&) = delete;
  FloatsOnTheWay& operator=(const FloatsOnTheWay&) = delete;
  // Blocks until nothing is read any more, and says every 2 s for whom. A
  // connection that is closed while its peer takes nothing is read for until it
  // counts as dead: kKeepaliveTimeoutMs. REQUIRES: the connections are closed.
  ~FloatsOnTheWay() {
    absl::MutexLock lock(&mu_);
    const absl::Condition gone(
        +[](int* read) { return *read == 0; }, &read_);
    while (!AwaitFor(&mu_, gone, absl::Seconds(2))) {
      spdlog::warn("event=waiting for=\"a gradient on its way to {}\"",
                   readers_);
    }
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
  const std::string readers_;

  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  int read_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_FLOATS_ON_THE_WAY_H_
