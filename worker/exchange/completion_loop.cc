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

void SetTimeout(absl::Duration timeout, grpc::ClientContext* context) {
  // A span, not a point in time: somebody who sets the wall clock must not
  // end or prolong the call.
  context->set_deadline(
      gpr_time_from_micros(absl::ToInt64Microseconds(timeout), GPR_TIMESPAN));
}

}  // namespace sluice
