#ifndef SLUICE_WORKER_EXCHANGE_COMPLETION_LOOP_H_
#define SLUICE_WORKER_EXCHANGE_COMPLETION_LOOP_H_

#include <grpcpp/completion_queue.h>

#include <deque>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace sluice {

// Completion queues and whoever serves them (completion_tag.h), which decodes
// what comes in where it comes in, without a hand-over.
//
// Thread-safe, but for Await.
class CompletionLoop {
 public:
  enum class ServedBy {
    // Threads of its own, one for each queue: calls go on while nobody waits
    // for them. What goes on at once in a process is faster on one such loop.
    kThread,
    // Whoever waits for them, while it waits, and now and then whoever Listens:
    // an answer wakes one thread, not two. For calls that need nothing done
    // meanwhile.
    kWaiter,
  };

  // `queues`, at least 1, of kThread: a thread copies a few GB/s of what
  // comes in, and several shards may bring more.
  explicit CompletionLoop(ServedBy served_by = ServedBy::kThread,
                          int queues = 1);
  // REQUIRES: every operation on the queues has ended or will by itself.
  ~CompletionLoop();

  // That of a shard's calls: nothing of one shard happens at once.
  grpc::CompletionQueue* queue(int shard) {
    return &queues_[shard % queues_.size()];
  }
  ServedBy served_by() const {
    return threads_.empty() ? ServedBy::kWaiter : ServedBy::kThread;
  }

  // As AwaitFor: until `condition`, which depends on what `mu` guards, holds,
  // at most for `timeout`. kWaiter: from one thread at a time; operations end
  // on it meanwhile, without `mu`.
  bool Await(absl::Mutex* mu, const absl::Condition& condition,
             absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Has Await look at its condition, where something else than `mu` and the end
  // of operations changes it.
  void Wake(absl::Mutex* mu) ABSL_LOCKS_EXCLUDED(mu);
  // What has ended, unless somebody awaits it, ends here. From any thread that
  // holds no lock that an operation's end takes.
  void Listen();

 private:
  // Waits for the end of one operation, at most until `end`; whether one ended.
  bool Serve(gpr_timespec end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(serving_);

  std::deque<grpc::CompletionQueue> queues_;  // kWaiter: one.
  // kWaiter: of who serves the queue. Acquired before any other lock.
  absl::Mutex serving_;
  std::vector<std::thread> threads_;  // kWaiter: none.
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_COMPLETION_LOOP_H_
