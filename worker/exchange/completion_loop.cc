#include "worker/exchange/completion_loop.h"

#include "common/named_thread.h"

namespace sluice {

CompletionLoop::CompletionLoop()
    : thread_(StartThread("exchange", [this] { Serve(); })) {}

CompletionLoop::~CompletionLoop() {
  queue_.Shutdown();
  thread_.join();
}

void CompletionLoop::Serve() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
    static_cast<Completion*>(tag)->OnCompletion(ok);
  }
}

}  // namespace sluice
