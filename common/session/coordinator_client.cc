// Two threads around a ClientSession, which makes all decisions:
//
//   reader   opens one connection after another, joins on each, and hands on
//            what arrives (ReadLoop)
//   writer   sends acknowledgements, heartbeats and whatever the senders have
//            not written, and cuts a silent connection (WriteLoop)
//
// A thread that calls Send() usually writes its message itself, because handing
// it to the writer would cost a context switch. So several threads write to the
// stream, one at a time:
//
//   - writing_ is true from TakeFrame, under mu_, until the Write has returned.
//     Write itself runs without mu_, since it may block.
//   - A thread that finds writing_ set leaves its message in the queue. The
//     thread that is writing takes it next.
//   - stream_ is set only between a Welcome and the end of that connection.
//     Before the reader finishes a stream, it clears stream_ and waits until
//     writing_ is false, so no thread can write to a stream that is gone.
#include "common/session/coordinator_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/await_for.h"
#include "common/process/named_thread.h"
#include "common/rpc/channel_options.h"
#include "common/rpc/status_conversion.h"
#include "common/secret.h"
#include "common/session/client_session.h"
#include "common/telemetry/log_value.h"
#include "proto/coordinator.grpc.pb.h"
#include "third_party/spdlog.h"

namespace sluice {
namespace {

using Stream =
    grpc::ClientReaderWriter<proto::ToCoordinator, proto::FromCoordinator>;

// How often a process that waits at the start logs what it waits for.
constexpr absl::Duration kSayEvery = absl::Seconds(2);
// How long a Leave may take to reach the coordinator.
constexpr absl::Duration kLeaveTimeout = absl::Seconds(1);
// Bounds on the writer's wait. The lower one limits how often it looks at a
// connection that is being cut.
constexpr absl::Duration kLongestRest = ClientSession::kAwakeEvery;
constexpr absl::Duration kShortestRest = absl::Milliseconds(1);
// This many messages fit into what a connection takes without being read (64
// KiB), so their sender can write them without blocking.
constexpr size_t kWrittenBySender = 64;

}  // namespace

// See the top of this file.
class CoordinatorClient::Impl {
 public:
  explicit Impl(Options options)
      : options_(std::move(options)),
        start_(options_.clock->Now()),
        session_({.address = options_.address,
                  .join = options_.join,
                  .secret = DrawSecret(kSessionSecretBytes),
                  .start_timeout = options_.start_timeout,
                  .rejoin_timeout = options_.rejoin_timeout,
                  .rejoins = options_.rejoins},
                 start_) {
    reader_ = StartThread("session-read", [this] { ReadLoop(); });
    writer_ = StartThread("session-write", [this] { WriteLoop(); });
  }

  ~Impl() {
    Close();
    reader_.join();
    writer_.join();
  }

  absl::Status AwaitWelcome();
  proto::Welcome welcome() const;
  void Send(proto::ToCoordinator message);
  void TellUnreached(std::function<std::optional<Unreached>()> unreached);
  void TellCounters(std::function<CounterMap()> counters);
  absl::Status Wait();
  void Leave(const std::string& reason, bool for_good);

 private:
  void ReadLoop();
  void WriteLoop();
  // Asks which peer this process cannot reach, for the next heartbeats.
  void AskUnreached() ABSL_LOCKS_EXCLUDED(mu_);
  // The frame that the caller must write now. None if there is none, or if
  // another thread is writing; that thread will take it.
  std::optional<proto::ToCoordinator> TakeFrame()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Writes the result of TakeFrame, and then whatever has been queued since.
  void WriteFrames(std::optional<proto::ToCoordinator> frame)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Runs one connection from the Join until it breaks. Returns how it ended.
  absl::Status RunConnection();
  // Handles one frame, with nothing behind it. False: the connection must be
  // cut.
  bool OnFrame(const proto::FromCoordinator& frame, Stream* stream);
  // Handles the end of a connection. False: the session has ended.
  bool AfterConnection(const absl::Status& status);
  void Close();

  bool Ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return end_.has_value();
  }
  bool WelcomedOrEnded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return session_.welcomed() || Ended();
  }
  bool Closing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return closing_; }
  bool NotWriting() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !writing_;
  }
  bool WriterHasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return Ended() ||
           (stream_ != nullptr && !writing_ && session_.HasUrgentFrame());
  }

  // Constant after construction.
  const Options options_;
  const absl::Time start_;

  mutable absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  ClientSession session_ ABSL_GUARDED_BY(mu_);
  // The current connection. Its stream is set from the Welcome on.
  std::shared_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mu_);
  Stream* stream_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  std::function<std::optional<Unreached>()> unreached_ ABSL_GUARDED_BY(mu_);
  std::function<CounterMap()> counters_ ABSL_GUARDED_BY(mu_);

  // Joined by the destructor.
  std::thread reader_;
  std::thread writer_;
};

absl::Status CoordinatorClient::Impl::AwaitWelcome() {
  while (true) {
    bool contacted;
    std::string error;
    {
      absl::MutexLock lock(&mu_);
      AwaitFor(&mu_, absl::Condition(this, &Impl::WelcomedOrEnded), kSayEvery);
      if (session_.welcomed()) return absl::OkStatus();
      if (Ended()) return *end_;  // OK: the run ended before it began here.
      contacted = session_.contacted();
      if (!contacted) error = session_.last_error();
    }
    spdlog::info(
        "event=waiting for={} address={} seconds={:.0f}{}",
        LogValue(contacted ? "the others to join" : "the coordinator"),
        options_.address, absl::ToDoubleSeconds(options_.clock->Now() - start_),
        error.empty() ? "" : absl::StrCat(" last_error=", LogValue(error)));
  }
}

proto::Welcome CoordinatorClient::Impl::welcome() const {
  absl::MutexLock lock(&mu_);
  return session_.welcome();
}

void CoordinatorClient::Impl::Send(proto::ToCoordinator message) {
  std::shared_ptr<grpc::ClientContext> refused;
  std::optional<proto::ToCoordinator> frame;
  {
    absl::MutexLock lock(&mu_);
    if (Ended() || closing_) return;
    if (!session_.Send(std::move(message)).ok()) {
      refused = context_;
    } else if (session_.unacknowledged() <= kWrittenBySender) {
      // Under the same lock, so that the writer does not wake for it.
      frame = TakeFrame();
    }
  }
  if (refused != nullptr) refused->TryCancel();
  WriteFrames(std::move(frame));
}

absl::Status CoordinatorClient::Impl::Wait() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(this, &Impl::Ended));
  return *end_;
}

void CoordinatorClient::Impl::Leave(const std::string& reason, bool for_good) {
  {
    absl::MutexLock lock(&mu_);
    session_.Leave(reason, for_good);
    AwaitFor(&mu_, absl::Condition(this, &Impl::Ended), kLeaveTimeout);
  }
  Close();
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(this, &Impl::Ended));
}

void CoordinatorClient::Impl::Close() {
  std::shared_ptr<grpc::ClientContext> context;
  {
    absl::MutexLock lock(&mu_);
    closing_ = true;
    context = context_;
  }
  if (context != nullptr) context->TryCancel();
}

void CoordinatorClient::Impl::ReadLoop() {
  while (AfterConnection(RunConnection())) {
  }
}

absl::Status CoordinatorClient::Impl::RunConnection() {
  const auto context = std::make_shared<grpc::ClientContext>();
  proto::ToCoordinator join;
  {
    absl::MutexLock lock(&mu_);
    if (closing_) return absl::CancelledError("the session was closed");
    context_ = context;
    join = session_.Join();
  }
  // A new channel each time, because this class decides when to try again.
  const auto stub = proto::Coordinator::NewStub(grpc::CreateCustomChannel(
      options_.address,
      options_.credentials ? options_.credentials
                           : grpc::InsecureChannelCredentials(),
      SessionChannelArguments()));
  const auto stream = stub->Session(context.get());
  stream->Write(join);  // If this fails, the first Read fails too.
  const auto on_frame = [&](const proto::FromCoordinator& frame) {
    return OnFrame(frame, stream.get());
  };
  proto::FromCoordinator first;
  while (stream->Read(&first)) {
    const auto behind = std::move(*first.mutable_behind());
    first.clear_behind();
    if (on_frame(first) &&
        std::all_of(behind.begin(), behind.end(), on_frame)) {
      continue;
    }
    context->TryCancel();
    break;
  }
  {
    absl::MutexLock lock(&mu_);
    stream_ = nullptr;
    mu_.Await(absl::Condition(this, &Impl::NotWriting));
  }
  const grpc::Status status = stream->Finish();
  absl::MutexLock lock(&mu_);
  context_ = nullptr;
  return FromFirstCall(status);
}

bool CoordinatorClient::Impl::OnFrame(const proto::FromCoordinator& frame,
                                      Stream* stream) {
  absl::StatusOr<ClientSession::Event> event;
  {
    absl::MutexLock lock(&mu_);
    event = session_.OnFrame(frame, options_.clock->Now());
    if (event.ok() && frame.has_welcome()) stream_ = stream;
  }
  if (!event.ok()) return false;
  if (*event != ClientSession::Event::kMessage) return true;
  options_.on_message(frame);
  if (frame.has_finish()) {
    absl::MutexLock lock(&mu_);
    session_.OnFinished(frame.finish());
  }
  return true;
}

bool CoordinatorClient::Impl::AfterConnection(const absl::Status& status) {
  bool just_broken;
  {
    absl::MutexLock lock(&mu_);
    end_ = session_.OnConnectionEnd(status, options_.clock->Now());
    if (!Ended() && closing_) end_ = status;
    if (Ended()) return false;
    just_broken = session_.contacted() && session_.failures() == 1;
  }
  if (just_broken) {
    spdlog::warn("event=session_broken coordinator={} error={}",
                 options_.address, LogValue(status.message()));
  }
  absl::MutexLock lock(&mu_);
  const absl::Duration left = session_.Deadline() - options_.clock->Now();
  AwaitFor(&mu_, absl::Condition(this, &Impl::Closing),
           std::min(session_.Backoff(), left));
  return true;
}

void CoordinatorClient::Impl::WriteLoop() {
  while (true) {
    std::shared_ptr<grpc::ClientContext> silent;
    std::optional<proto::ToCoordinator> frame;
    AskUnreached();
    const bool hurries = options_.told_to_end && options_.told_to_end();
    {
      absl::MutexLock lock(&mu_);
      if (hurries) session_.Hurry();
      const absl::Time wake =
          std::min(session_.CutAt(), session_.next_heartbeat());
      // A Welcome that comes in the meantime makes a heartbeat due earlier.
      const auto has_work = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return WriterHasWork() || session_.next_heartbeat() < wake;
      };
      AwaitFor(&mu_, absl::Condition(&has_work),
               std::clamp(wake - options_.clock->Now(), kShortestRest,
                          kLongestRest));
      if (Ended()) return;
      const absl::Time now = options_.clock->Now();
      session_.Awake(now);
      if (now >= session_.CutAt()) {
        silent = context_;
      } else {
        frame = TakeFrame();
      }
    }
    if (silent != nullptr) silent->TryCancel();
    WriteFrames(std::move(frame));
  }
}

void CoordinatorClient::Impl::TellUnreached(
    std::function<std::optional<Unreached>()> unreached) {
  absl::MutexLock lock(&mu_);
  unreached_ = std::move(unreached);
}

void CoordinatorClient::Impl::TellCounters(
    std::function<CounterMap()> counters) {
  absl::MutexLock lock(&mu_);
  counters_ = std::move(counters);
}

void CoordinatorClient::Impl::AskUnreached() {
  std::function<std::optional<Unreached>()> ask;
  {
    absl::MutexLock lock(&mu_);
    ask = unreached_;
  }
  if (ask == nullptr) return;
  const std::optional<Unreached> unreached = ask();
  absl::MutexLock lock(&mu_);
  session_.CannotReach(unreached.has_value() ? unreached->whom : "",
                       unreached.has_value() ? unreached->since : absl::Time());
}

std::optional<proto::ToCoordinator> CoordinatorClient::Impl::TakeFrame() {
  if (stream_ == nullptr || writing_) return std::nullopt;
  auto frame = session_.NextFrame(options_.clock->Now());
  writing_ = frame.has_value();
  return frame;
}

void CoordinatorClient::Impl::WriteFrames(
    std::optional<proto::ToCoordinator> frame) {
  while (frame.has_value()) {
    Stream* stream = nullptr;
    std::function<CounterMap()> counters;
    {
      absl::MutexLock lock(&mu_);
      stream = stream_;
      if (frame->has_heartbeat()) counters = counters_;
    }
    if (counters != nullptr) {
      for (const auto& [name, value] : counters()) {
        (*frame->mutable_heartbeat()->mutable_counters())[name] = value;
      }
    }
    const bool written = stream != nullptr && stream->Write(*frame);
    absl::MutexLock lock(&mu_);
    writing_ = false;
    // The reader also sees the end of the stream, and reports the reason.
    if (!written) stream_ = nullptr;
    frame = TakeFrame();
  }
}

CoordinatorClient::CoordinatorClient(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
CoordinatorClient::~CoordinatorClient() = default;

absl::StatusOr<std::unique_ptr<CoordinatorClient>> CoordinatorClient::Connect(
    Options options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  const absl::Status status = impl->AwaitWelcome();
  if (!status.ok()) return status;
  return std::unique_ptr<CoordinatorClient>(
      new CoordinatorClient(std::move(impl)));
}

proto::Welcome CoordinatorClient::welcome() const { return impl_->welcome(); }

void CoordinatorClient::Send(proto::ToCoordinator message) {
  impl_->Send(std::move(message));
}

void CoordinatorClient::TellUnreached(
    std::function<std::optional<Unreached>()> unreached) {
  impl_->TellUnreached(std::move(unreached));
}

void CoordinatorClient::TellCounters(std::function<CounterMap()> counters) {
  impl_->TellCounters(std::move(counters));
}

absl::Status CoordinatorClient::Wait() { return impl_->Wait(); }

void CoordinatorClient::Leave(absl::string_view reason, bool for_good) {
  impl_->Leave(std::string(reason), for_good);
}

}  // namespace sluice
