// Each direction is carried by one thread at a time, so messages keep their
// order. to_shard_ and to_coordinator_ say that somebody is carrying; whoever
// finds it set leaves its message to that thread, which looks again under the
// lock before it clears the flag. No message is left behind, and nothing is
// called under the lock.
//
//   coordinator   Queue(Commit), Flush: on_message hands it to the exchange
//   exchange      executes it; Send(Executed): the coordinator decides what
//                 follows, on this thread
//   coordinator   what it sends for that comes by Flush, on its own thread
//
// Close waits until nobody is carrying: afterwards on_message may be destroyed.
#include "ps_server/local_session.h"

#include <utility>

#include "common/secret.h"

namespace sluice {

std::shared_ptr<LocalSession> LocalSession::Create(Options options) {
  return std::shared_ptr<LocalSession>(new LocalSession(std::move(options)));
}

LocalSession::LocalSession(Options options)
    : options_(std::move(options)),
      session_({.address = "this process",
                .join = options_.join,
                .secret = DrawSecret(kSessionSecretBytes),
                .start_timeout = absl::InfiniteDuration(),
                .rejoin_timeout = absl::InfiniteDuration()},
               options_.clock->Now()) {}

absl::Status LocalSession::Join() {
  proto::ToCoordinator join;
  {
    absl::MutexLock lock(&mu_);
    join = session_.Join();
  }
  options_.service->OnLocalFrame(shared_from_this(), join);
  absl::MutexLock lock(&mu_);
  return session_.welcomed() ? absl::OkStatus() : *end_;
}

void LocalSession::Send(proto::ToCoordinator message) {
  {
    absl::MutexLock lock(&mu_);
    if (end_.has_value()) return;
    const absl::Status status = session_.Send(std::move(message));
    if (!status.ok()) end_ = status;
  }
  DeliverToCoordinator();
}

void LocalSession::Close() {
  absl::MutexLock lock(&mu_);
  end_ = absl::CancelledError("the session was closed");
  mu_.Await(absl::Condition(this, &LocalSession::NotDelivering));
}

void LocalSession::Queue(proto::FromCoordinator frame) {
  absl::MutexLock lock(&mu_);
  if (!end_.has_value()) queue_.push_back(std::move(frame));
}

void LocalSession::End(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  if (!end_.has_value()) end_ = status;
}

bool LocalSession::idle() const {
  absl::MutexLock lock(&mu_);
  return queue_.empty() && !to_shard_;
}

bool LocalSession::ending() const {
  absl::MutexLock lock(&mu_);
  return end_.has_value();
}

void LocalSession::Flush() {
  DeliverToShard();
  DeliverToCoordinator();  // What it has to acknowledge at once.
}

void LocalSession::DeliverToShard() {
  bool mine = false;
  while (true) {
    proto::FromCoordinator frame;
    absl::StatusOr<ClientSession::Event> event;
    {
      absl::MutexLock lock(&mu_);
      if (to_shard_ && !mine) return;
      mine = to_shard_ = !end_.has_value() && !queue_.empty();
      if (!mine) return;
      frame = std::move(queue_.front());
      queue_.pop_front();
      event = session_.OnFrame(frame, options_.clock->Now());
      if (!event.ok()) end_ = event.status();
    }
    if (!event.ok() || *event != ClientSession::Event::kMessage) continue;
    options_.on_message(frame);
    if (!frame.has_finish()) continue;
    absl::MutexLock lock(&mu_);
    session_.OnFinished(frame.finish());
  }
}

void LocalSession::DeliverToCoordinator() {
  bool mine = false;
  while (true) {
    std::optional<proto::ToCoordinator> frame;
    {
      absl::MutexLock lock(&mu_);
      if (to_coordinator_ && !mine) return;
      if (!end_.has_value()) frame = session_.NextFrame(options_.clock->Now());
      mine = to_coordinator_ = frame.has_value();
      if (!mine) return;
    }
    if (frame->has_heartbeat() && options_.counters != nullptr) {
      for (const auto& [name, value] : options_.counters()) {
        (*frame->mutable_heartbeat()->mutable_counters())[name] = value;
      }
    }
    options_.service->OnLocalFrame(shared_from_this(), *frame);
  }
}

}  // namespace sluice
