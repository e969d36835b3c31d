#ifndef SLUICE_PS_SERVER_COORDINATOR_LIVE_CALLS_H_
#define SLUICE_PS_SERVER_COORDINATOR_LIVE_CALLS_H_

#include <grpcpp/completion_queue.h>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace sluice {

// The calls that may still start operations on a queue, also those that wait
// for a client: a queue must not be shut while there are any. Thread-safe.
class LiveCalls {
 public:
  void Begin() {
    absl::MutexLock lock(&mu_);
    ++live_;
  }
  void End(grpc::CompletionQueue* queue) {
    absl::MutexLock lock(&mu_);
    if (--live_ == 0 && stopping_) queue->Shutdown();
  }
  // Shuts the queue as soon as no call is left. REQUIRES: called once, and the
  // server takes no new calls.
  void ShutWhenDone(grpc::CompletionQueue* queue) {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
    if (live_ == 0) queue->Shutdown();
  }

 private:
  // Held while the queue is shut, so that that happens once.
  absl::Mutex mu_;
  int live_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_LIVE_CALLS_H_
