// Nothing here stops the thread. Once the queue is shut, Next still hands out
// every operation that was begun, and says false only when none is left; so
// each tag completes exactly once, and the destructor waits for the last.
//
//   a call begins        its tag is with gRPC
//   ~CompletionLoop      Shutdown; ServeQueue goes on
//   the call ends        Complete, on the loop's thread; it may free the call
//   the queue is empty   ServeQueue returns, and the thread is joined
//
// Without a thread, the destructor does what is left itself. While nobody waits,
// what comes stays in the kernel, as far as HTTP/2's window goes, but for a look
// that gRPC takes every 5 s: so keepalive pings are answered within their 10 s
// (common/rpc/channel_options.h).
#include "worker/exchange/completion_loop.h"

#include <grpcpp/alarm.h>

#include "common/await_for.h"
#include "common/named_thread.h"
#include "common/rpc/completion_tag.h"
#include "common/rpc/deadline.h"

namespace sluice {
namespace {

// Ends an AsyncNext, once. Deletes itself.
class Nudge final : public CompletionTag {
 public:
  void Set(grpc::CompletionQueue* queue) {
    // Rings at once.
    alarm_.Set(queue, gpr_inf_past(GPR_CLOCK_MONOTONIC), address());
  }
  void Complete(bool ok) override { delete this; }

 private:
  grpc::Alarm alarm_;
};

}  // namespace

CompletionLoop::CompletionLoop(ServedBy served_by) {
  if (served_by == ServedBy::kWaiter) return;
  thread_ = StartThread("completion", [this] { ServeQueue(&queue_); });
}

CompletionLoop::~CompletionLoop() {
  queue_.Shutdown();
  thread_.joinable() ? thread_.join() : ServeQueue(&queue_);
}

bool CompletionLoop::Await(absl::Mutex* mu, const absl::Condition& condition,
                           absl::Duration timeout) {
  if (thread_.joinable()) return AwaitFor(mu, condition, timeout);
  const gpr_timespec end = FromNow(timeout);
  auto next = grpc::CompletionQueue::GOT_EVENT;
  while (!condition.Eval() && next == grpc::CompletionQueue::GOT_EVENT) {
    mu->Unlock();
    void* tag = nullptr;
    bool ok = false;
    next = queue_.AsyncNext(&tag, &ok, end);
    if (next == grpc::CompletionQueue::GOT_EVENT) {
      static_cast<CompletionTag*>(tag)->Complete(ok);
    }
    mu->Lock();
  }
  return condition.Eval();
}

void CompletionLoop::Wake(absl::Mutex* mu) {
  // Whoever waits for the lock looks at its condition anew when it is released.
  absl::MutexLock lock(mu);
  if (!thread_.joinable()) (new Nudge)->Set(&queue_);
}

}  // namespace sluice
