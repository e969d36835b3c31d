// Nothing here stops a thread. Once its queue is shut, Next still hands out
// every operation that was begun, and says false only when none is left; so
// each tag completes exactly once, and the destructor waits for the last.
//
//   a call begins        its tag is with gRPC
//   ~CompletionLoop      Shutdown; ServeQueue goes on
//   the call ends        Complete, on the loop's thread; it may free the call
//   the queue is empty   ServeQueue returns, and the thread is joined
//
// Without a thread, the destructor does what is left itself. While nobody
// waits, what comes stays in the kernel, as far as HTTP/2's window goes, since
// no other thread polls these sockets (PollQueuesApart), but for a look that
// gRPC takes every 5 s: so keepalive pings are answered within their 10 s
// (common/rpc/channel_options.h).
#include "worker/exchange/completion_loop.h"

#include "common/await_for.h"
#include "common/process/named_thread.h"
#include "common/rpc/completion_tag.h"
#include "common/rpc/deadline.h"

namespace sluice {
CompletionLoop::CompletionLoop(ServedBy served_by, int queues)
    : queues_(queues) {
  if (served_by == ServedBy::kWaiter) return;
  for (grpc::CompletionQueue& queue : queues_) {
    threads_.push_back(
        StartThread("completion", [&queue] { ServeQueue(&queue); }));
  }
}

CompletionLoop::~CompletionLoop() {
  for (grpc::CompletionQueue& queue : queues_) queue.Shutdown();
  if (threads_.empty()) ServeQueue(&queues_.front());
  for (std::thread& thread : threads_) thread.join();
}

bool CompletionLoop::Await(absl::Mutex* mu, const absl::Condition& condition,
                           absl::Duration timeout) {
  if (!threads_.empty()) return AwaitFor(mu, condition, timeout);
  const gpr_timespec end = FromNow(timeout);
  // What ends while this does not serve the queue is in `condition` below.
  mu->Unlock();
  absl::MutexLock serving(&serving_);
  mu->Lock();
  bool ended = true;
  while (!condition.Eval() && ended) {
    mu->Unlock();
    ended = Serve(end);
    mu->Lock();
  }
  return condition.Eval();
}

bool CompletionLoop::Serve(gpr_timespec end) {
  void* tag = nullptr;
  bool ok = false;
  if (queues_.front().AsyncNext(&tag, &ok, end) !=
      grpc::CompletionQueue::GOT_EVENT) {
    return false;
  }
  static_cast<CompletionTag*>(tag)->Complete(ok);
  return true;
}

void CompletionLoop::Listen() {
  if (!threads_.empty() || !serving_.TryLock()) return;
  while (Serve(gpr_inf_past(GPR_CLOCK_MONOTONIC))) {
  }
  serving_.Unlock();
}

void CompletionLoop::Wake(absl::Mutex* mu) {
  // Ends a Serve.
  if (threads_.empty()) return RunOn(&queues_.front(), [] {});
  // Whoever waits looks at its condition anew when the lock is released.
  absl::MutexLock lock(mu);
}

}  // namespace sluice
