#ifndef SLUICE_PS_SERVER_COORDINATOR_SESSION_STREAM_H_
#define SLUICE_PS_SERVER_COORDINATOR_SESSION_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/frame_sink.h"

namespace sluice {

// One connection of a session, on the coordinator's side: reads frame after
// frame, and writes what is queued. A peer that reads slowly keeps only its
// own frames waiting. Thread-safe.
class SessionStream final
    : public grpc::ServerBidiReactor<proto::ToCoordinator,
                                     proto::FromCoordinator>,
      public FrameSink {
 public:
  // What the connection tells its owner, on gRPC's threads; never two calls
  // for one stream at once.
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void OnFrame(SessionStream* stream,
                         const proto::ToCoordinator& frame) = 0;
    // The last call for this stream.
    virtual void OnBroken(SessionStream* stream) = 0;
  };

  // Lives until the connection has ended and the last holder has let go.
  // `handler` must outlive the server.
  static std::shared_ptr<SessionStream> Start(Handler* handler);

  // The same stream for keeping.
  std::shared_ptr<SessionStream> Share();

  // FrameSink:
  void Queue(proto::FromCoordinator frame) override;
  void End(const absl::Status& status) override;
  void Flush() override;
  bool idle() const override;
  bool ending() const override;

 private:
  explicit SessionStream(Handler* handler);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

  // Starts whatever is next for the writing side.
  void Continue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Constant after construction.
  Handler* const handler_;

  proto::ToCoordinator in_;  // Of the read under way.

  // Guards the order of gRPC's operations on this stream, so they are started
  // under it: none may begin after Finish. Leaf lock.
  mutable absl::Mutex mu_;
  std::shared_ptr<SessionStream> self_ ABSL_GUARDED_BY(mu_);
  std::deque<proto::FromCoordinator> queue_ ABSL_GUARDED_BY(mu_);
  proto::FromCoordinator out_ ABSL_GUARDED_BY(mu_);  // Of the write under way.
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_SESSION_STREAM_H_
