// Nothing here stops the thread. Once the queue is shut, Next still hands out
// every operation that was begun, and says false only when none is left; so
// each tag completes exactly once, and the destructor waits for the last.
//
//   a call begins        its tag is with gRPC
//   ~CompletionLoop      Shutdown; ServeQueue goes on
//   the call ends        Complete, on the loop's thread; it may free the call
//   the queue is empty   ServeQueue returns, and the thread is joined
#include "worker/exchange/completion_loop.h"

#include "common/named_thread.h"
#include "common/rpc/completion_tag.h"

namespace sluice {

CompletionLoop::CompletionLoop()
    : thread_(StartThread("completion", [this] { ServeQueue(&queue_); })) {}

CompletionLoop::~CompletionLoop() {
  queue_.Shutdown();
  thread_.join();
}

}  // namespace sluice
