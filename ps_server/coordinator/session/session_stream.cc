// One read is always under way until the connection ends, and at most one
// write; frames that come meanwhile wait in queue_, and travel together then.
// So nobody who sends ever waits here.
//
// What keeps a stream alive is `self_`, from Listen until operations_ falls to
// 0. gRPC's objects (call_) go at that moment, under no lock; holders of the
// stream may keep it longer, and nothing is started on it any more once
// finished_ is set.
//
//   Queue(a), Queue(b), Flush    Write a, with b behind it
//   Queue(c), Queue(d), Flush    a and b are under way
//   OnWritten                    Write c, with d behind it
//   End(status)                  what is queued is left out
//   Flush                        Finish, now or in OnWritten
#include "ps_server/coordinator/session/session_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/rpc/deadline.h"
#include "common/rpc/status_conversion.h"

namespace sluice {
namespace {

// Of frames that travel together, but for a first one that is larger.
constexpr size_t kMostBytesTogether = 64 << 10;

}  // namespace

void SessionStream::Listen(Context* context) {
  const std::shared_ptr<SessionStream> stream(new SessionStream(context));
  context->calls.Begin();
  absl::MutexLock lock(&stream->mu_);
  stream->self_ = stream;
  Call& call = *stream->call_;
  context->service.Accept(NumberOf(Rpc::kSession), &call.context, &call.stream,
                          context->queue.get(),
                          stream->Begin(&stream->on_open_));
}

SessionStream::SessionStream(Context* context) : context_(context) {}

void SessionStream::Complete(Done done, bool ok) {
  (this->*done)(ok);
  std::shared_ptr<SessionStream> self;  // Destroyed after the lock.
  std::unique_ptr<Call> call;
  {
    absl::MutexLock lock(&mu_);
    if (--operations_ > 0) return;
    finished_ = true;
    self = std::move(self_);
    call = std::move(call_);
  }
  Context* const context = context_;
  call.reset();
  context->calls.End(context->queue.get());
}

void SessionStream::OnOpen(bool ok) {
  if (!ok) return;  // The server is shutting down.
  Listen(context_);
  absl::MutexLock lock(&mu_);
  auto place = context_->admission.Admit(call_->context, Rpc::kSession);
  if (!place.ok()) {
    end_ = place.status();
    return Continue();
  }
  caller_ = place->caller();
  call_->place = *std::move(place);
  call_->alarm.Set(context_->queue.get(), FromNow(context_->first_timeout),
                   Begin(&on_alarm_));
  Read();
}

void SessionStream::Read() { call_->stream.Read(&in_, Begin(&on_read_)); }

void SessionStream::OnRead(bool ok) {
  if (std::exchange(silent_, false)) {
    absl::MutexLock lock(&mu_);
    call_->alarm.Cancel();
  }
  absl::Status refused = absl::InvalidArgumentError(
      "a message came that is no ToCoordinator, or the sender closed its side "
      "without a Leave");
  if (ok) refused = Judge(in_);
  if (refused.ok()) {
    context_->handler->OnFrame(this, in_);
    absl::MutexLock lock(&mu_);
    call_->place.Took(static_cast<int64_t>(in_.ByteSizeLong()));
    if (!finished_) return Read();
  }
  // Nothing more will be read, so nothing else will say that it is over. Who
  // has lost its connection does not hear this.
  context_->handler->OnBroken(this);
  End(refused);
  Flush();
}

absl::Status SessionStream::Judge(const proto::ToCoordinator& frame) const {
  if (!frame.has_join()) return absl::OkStatus();
  switch (frame.join().role()) {
    case proto::WORKER:
      return context_->admission.security().AdmitJoin(caller_,
                                                      TlsRole::kWorker);
    case proto::SHARD:
      return context_->admission.security().AdmitJoin(caller_, TlsRole::kShard);
    case proto::EVALUATOR:
      return context_->admission.security().AdmitJoin(caller_,
                                                      TlsRole::kEvaluator);
    default:
      return absl::OkStatus();  // The handler says what is wrong with it.
  }
}

void SessionStream::OnAlarm(bool ok) {
  if (!ok || !silent_) return;  // Cancelled.
  End(absl::DeadlineExceededError(absl::StrCat(
      "no Join came for ", absl::FormatDuration(context_->first_timeout))));
  Flush();
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
    call_->stream.Finish(ToGrpcStatus(*end_), Begin(&on_finished_));
  } else if (!queue_.empty()) {
    writing_ = true;
    call_->stream.Write(TakeFrames(), Begin(&on_written_));
  }
}

proto::FromCoordinator SessionStream::TakeFrames() {
  proto::FromCoordinator first = std::move(queue_.front());
  queue_.pop_front();
  size_t bytes = first.ByteSizeLong();
  while (!queue_.empty()) {
    bytes += queue_.front().ByteSizeLong();
    if (bytes > kMostBytesTogether) break;
    *first.add_behind() = std::move(queue_.front());
    queue_.pop_front();
  }
  return first;
}

void SessionStream::OnWritten(bool ok) {
  absl::MutexLock lock(&mu_);
  writing_ = false;
  if (!ok) queue_.clear();
  Continue();
}

}  // namespace sluice
