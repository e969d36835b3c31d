#include "ps_server/coordinator/session_stream.h"

#include <utility>

#include "common/rpc/status_conversion.h"

namespace sluice {

std::shared_ptr<SessionStream> SessionStream::Start(Handler* handler) {
  std::shared_ptr<SessionStream> stream(new SessionStream(handler));
  absl::MutexLock lock(&stream->mu_);
  stream->self_ = stream;
  stream->StartRead(&stream->in_);
  return stream;
}

SessionStream::SessionStream(Handler* handler) : handler_(handler) {}

std::shared_ptr<SessionStream> SessionStream::Share() {
  absl::MutexLock lock(&mu_);
  return self_;
}

void SessionStream::Queue(proto::FromCoordinator frame) {
  absl::MutexLock lock(&mu_);
  if (!end_.has_value()) queue_.push_back(std::move(frame));
}

bool SessionStream::idle() const {
  absl::MutexLock lock(&mu_);
  return queue_.empty() && !writing_;
}

bool SessionStream::ending() const {
  absl::MutexLock lock(&mu_);
  return end_.has_value();
}

void SessionStream::Flush() {
  absl::MutexLock lock(&mu_);
  Continue();
}

void SessionStream::End(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  if (end_.has_value()) return;
  end_ = status;
  queue_.clear();
}

void SessionStream::Continue() {
  if (writing_ || finished_) return;
  if (end_.has_value()) {
    finished_ = true;
    Finish(ToGrpcStatus(*end_));
  } else if (!queue_.empty()) {
    out_ = std::move(queue_.front());
    queue_.pop_front();
    writing_ = true;
    StartWrite(&out_);
  }
}

void SessionStream::OnReadDone(bool ok) {
  if (ok) {
    handler_->OnFrame(this, in_);
    absl::MutexLock lock(&mu_);
    if (!finished_) {
      StartRead(&in_);
      return;
    }
  }
  // Nothing more will be read, so nothing else will say that it is over. Who
  // has lost its connection does not hear this.
  handler_->OnBroken(this);
  End(absl::InvalidArgumentError(
      "a message came that is no ToCoordinator, or the sender closed its side "
      "without a Leave"));
  Flush();
}

void SessionStream::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mu_);
  writing_ = false;
  if (!ok) queue_.clear();
  Continue();
}

void SessionStream::OnDone() {
  std::shared_ptr<SessionStream> self;  // Destroyed after the lock.
  absl::MutexLock lock(&mu_);
  self = std::move(self_);
}

}  // namespace sluice
