#include "worker/exchange/completion_loop.h"

#include "common/named_thread.h"
#include "common/rpc/completion_tag.h"

namespace sluice {

CompletionLoop::CompletionLoop()
    : thread_(StartThread("exchange", [this] { ServeQueue(&queue_); })) {}

CompletionLoop::~CompletionLoop() {
  queue_.Shutdown();
  thread_.join();
}

}  // namespace sluice
