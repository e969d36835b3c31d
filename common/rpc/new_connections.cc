// No call of ours is ever on the queue, so that Next only polls: what it reads
// of a connection, the first request for instance, gRPC hands to the queue that
// waits for such a call, and wakes it. Calls of methods that the server does
// not have gRPC answers here, by itself.
#include "common/rpc/new_connections.h"

#include "common/await_for.h"
#include "common/clock.h"
#include "common/process/named_thread.h"
#include "common/rpc/completion_tag.h"
#include "common/rpc/deadline.h"

namespace sluice {
namespace {

// A connection on which nothing is asked at first may wait so long for its
// first call to be heard.
constexpr absl::Duration kRest = absl::Milliseconds(100);
// How long one poll lasts at most, when polling without pause.
constexpr absl::Duration kPoll = absl::Milliseconds(100);

}  // namespace

NewConnections::NewConnections(grpc::ServerBuilder* builder,
                               absl::Duration busy)
    : busy_(busy), queue_(builder->AddCompletionQueue()) {}

NewConnections::~NewConnections() {
  {
    absl::MutexLock lock(&mu_);
    closing_ = true;
  }
  if (thread_.joinable()) thread_.join();
  // A queue must be shut and empty before it goes.
  queue_->Shutdown();
  ServeQueue(queue_.get());
}

void NewConnections::Start() {
  thread_ = StartThread("connections", [this] { Run(); });
}

void NewConnections::Came() {
  absl::MutexLock lock(&mu_);
  busy_until_ = Clock::Real()->Now() + busy_;
}

void NewConnections::Run() {
  while (true) {
    bool busy;
    {
      absl::MutexLock lock(&mu_);
      AwaitFor(&mu_, absl::Condition(this, &NewConnections::ClosingOrBusy),
               kRest);
      if (closing_) return;
      looked_ = Clock::Real()->Now();
      busy = busy_until_ > looked_;
    }
    void* tag = nullptr;
    bool ok = false;
    queue_->AsyncNext(&tag, &ok, FromNow(busy ? kPoll : absl::ZeroDuration()));
  }
}

}  // namespace sluice
