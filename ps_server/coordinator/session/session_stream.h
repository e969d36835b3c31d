#ifndef SLUICE_PS_SERVER_COORDINATOR_SESSION_SESSION_STREAM_H_
#define SLUICE_PS_SERVER_COORDINATOR_SESSION_SESSION_STREAM_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/completion_tag.h"
#include "common/rpc/stream_service.h"
#include "common/tls/admission.h"
#include "proto/coordinator.grpc.pb.h"
#include "ps_server/coordinator/session/frame_sink.h"

namespace sluice {

// The place of a call in SessionStream::Context::service.
inline int NumberOf(Rpc rpc) { return static_cast<int>(rpc); }

// The calls that may still start operations on a queue, also those that wait
// for a client: a queue must not be shut while there are any. Thread-safe.
class LiveCalls {
 public:
  void Begin() {
    absl::MutexLock lock(&mu_);
    ++live_;
  }
  void End(grpc::CompletionQueue* queue) {
    absl::MutexLock lock(&mu_);
    if (--live_ == 0 && stopping_) queue->Shutdown();
  }
  // Shuts the queue as soon as no call is left. REQUIRES: called once, and the
  // server takes no new calls.
  void ShutWhenDone(grpc::CompletionQueue* queue) {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
    if (live_ == 0) queue->Shutdown();
  }

 private:
  // Held while the queue is shut, so that that happens once.
  absl::Mutex mu_;
  int live_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
};

// One connection of a session: frames in, frames out. Never waits: a peer that
// reads slowly keeps only its own frames waiting. Who may not open a session,
// joins in another's role, or says nothing at all, is refused here.
// Thread-safe.
class SessionStream final : public FrameSink,
                            public std::enable_shared_from_this<SessionStream> {
 public:
  // What the connection tells its owner, on the thread that serves the queue;
  // so never two calls at once.
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void OnFrame(SessionStream* stream,
                         const proto::ToCoordinator& frame) = 0;
    // The last call for this stream.
    virtual void OnBroken(SessionStream* stream) = 0;
  };

  // What the streams of a server share.
  struct Context {
    explicit Context(Admission admission) : admission(std::move(admission)) {}

    // Numbered as NumberOf says.
    StreamService service{"/sluice.proto.Coordinator/Session",
                          "/sluice.proto.Coordinator/GetStatus",
                          "/sluice.proto.Coordinator/Stop",
                          "/sluice.proto.Coordinator/RequestCheckpoint",
                          "/sluice.proto.Coordinator/ReportDeath"};
    Admission admission;
    std::unique_ptr<grpc::ServerCompletionQueue> queue;
    LiveCalls calls;
    Handler* handler = nullptr;
    // How long a call's request, or a session's Join, may take to come.
    absl::Duration first_timeout;
  };

  // Takes the next connection that a client opens, and then the one after it:
  // call once. A stream lives until its connection has ended and the last
  // holder has let go; `context`, until its calls have ended.
  static void Listen(Context* context);

  // The same stream for keeping.
  std::shared_ptr<SessionStream> Share() { return shared_from_this(); }

  // FrameSink:
  void Queue(proto::FromCoordinator frame) override;
  void End(const absl::Status& status) override;
  void Flush() override;
  bool idle() const override;
  bool ending() const override;
  std::string holder() const override { return caller_.key; }

 private:
  using Done = void (SessionStream::*)(bool ok);
  class Tag final : public CompletionTag {
   public:
    Tag(SessionStream* stream, Done done) : stream_(stream), done_(done) {}
    void Complete(bool ok) override { stream_->Complete(done_, ok); }

   private:
    SessionStream* const stream_;
    const Done done_;
  };
  // What gRPC knows of the connection; gone as soon as it has ended.
  struct Call {
    grpc::ServerContext context;
    grpc::ServerAsyncReaderWriter<proto::FromCoordinator, proto::ToCoordinator>
        stream{&context};
    Admission::Place place;
    grpc::Alarm alarm;  // Until the first frame has come.
  };

  explicit SessionStream(Context* context);

  // An operation has ended.
  void Complete(Done done, bool ok);
  void OnOpen(bool ok);
  void OnRead(bool ok);
  void OnAlarm(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok) {}

  // The tag for an operation that is started now.
  CompletionTag* Begin(Tag* tag) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    ++operations_;
    return tag;
  }
  // OK, or why a frame is not to be handed on.
  absl::Status Judge(const proto::ToCoordinator& frame) const;
  void Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Starts whatever is next for the writing side.
  void Continue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The next frame, with what follows behind it. REQUIRES: queue_ has one.
  proto::FromCoordinator TakeFrames() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Constant after construction.
  Context* const context_;
  Tag on_open_{this, &SessionStream::OnOpen};
  Tag on_read_{this, &SessionStream::OnRead};
  Tag on_alarm_{this, &SessionStream::OnAlarm};
  Tag on_written_{this, &SessionStream::OnWritten};
  Tag on_finished_{this, &SessionStream::OnFinished};

  Caller caller_;            // Of the queue's thread; constant after OnOpen.
  bool silent_ = true;       // Of the queue's thread: no frame has come.
  proto::ToCoordinator in_;  // Of the read under way.

  // Guards the order of gRPC's operations on this stream, so they are started
  // under it: none may begin after Finish. Leaf lock.
  mutable absl::Mutex mu_;
  std::unique_ptr<Call> call_ ABSL_GUARDED_BY(mu_) = std::make_unique<Call>();
  // While operations are under way.
  std::shared_ptr<SessionStream> self_ ABSL_GUARDED_BY(mu_);
  int operations_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<proto::FromCoordinator> queue_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_SESSION_SESSION_STREAM_H_
