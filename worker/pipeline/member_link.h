#ifndef SLUICE_WORKER_PIPELINE_MEMBER_LINK_H_
#define SLUICE_WORKER_PIPELINE_MEMBER_LINK_H_

#include <grpcpp/server.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/tls/transport_security.h"
#include "proto/member.grpc.pb.h"
#include "worker/pipeline/activation_queue.h"
#include "worker/pipeline/neighbour.h"

// The members of a worker form a chain: each is linked to the one before it
// (upstream), which listens. The first one has the session with the
// coordinator; what that says goes down the chain, and what the members have
// made of a task comes up (proto/member.proto). A link lives as long as a life
// of the worker: if one breaks, the whole chain is made anew.
namespace sluice {

// This member, for its neighbours.
struct MemberIdentity {
  int64_t worker = 0;
  int member = 0;
  std::string fingerprint;  // Of the job, and the job itself.
  std::string job;
  std::string process;
};

// How a link is waited for.
struct LinkWait {
  absl::Duration timeout;
  std::string field;  // Of the job, that gave it.
  // It was linked before, so that starting this process again may mend it.
  bool rejoins = false;
  std::function<bool()> stopped;  // Asked about every 100 ms.
};

// The link to the member behind this one, which connects here.
//
// The handlers are called on a thread of the server's. Send may be called from
// any thread.
//
// Not thread-safe otherwise: call from the thread that owns the life.
class DownstreamLink final : public Neighbour {
 public:
  // Listens at `address`, "host:port" or "unix-abstract:NAME".
  // kInvalidArgument: it may not, or cannot.
  static absl::StatusOr<std::unique_ptr<DownstreamLink>> Listen(
      const std::string& address, MemberIdentity self,
      const TransportSecurity& security, Clock* clock = Clock::Real());
  ~DownstreamLink() override;

  struct Handlers {
    // What the member says, but for gradients.
    std::function<void(const proto::ToUpstream&)> on_message;
    // The link has broken: who is gone, and why.
    std::function<void(const absl::Status&)> on_broken;
  };
  // Waits until the member behind has linked, which it does when all those
  // behind it have. OK also where `wait` was stopped. kUnavailable: it has not
  // come for the timeout. The handlers stay until Unlink.
  absl::Status Await(const LinkWait& wait, Handlers handlers);
  // To the member; nothing where it is gone.
  void Send(const proto::ToDownstream& message);
  // Ends the link, if there is one: of a run that is over when the member has
  // heard so, for at most 2 s. No handler runs any more.
  void Unlink();
  bool linked() const;

  void Begin(const GradientKey& task) override;
  absl::Status Send(int64_t pass, absl::Span<const uint8_t> bytes) override;
  absl::Status Receive(int64_t pass, absl::Span<uint8_t> into,
                       const CancelToken& cancel) override;
  // Makes Receive look at its token. From any thread.
  void Wake() { queue_.Wake(); }

 private:
  class Service;
  using Stream =
      grpc::ServerReaderWriter<proto::ToDownstream, proto::ToUpstream>;

  DownstreamLink(MemberIdentity self, const TransportSecurity& security,
                 Clock* clock);
  // Serves one call until it ends.
  absl::Status Serve(grpc::ServerContext* context, Stream* stream);
  absl::Status CheckHello(const proto::MemberHello& hello) const;
  std::string Name() const;  // "member 1 of worker 3"

  // Constant after Listen.
  const MemberIdentity self_;
  const TransportSecurity security_;
  Clock* const clock_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;

  ActivationQueue queue_;
  proto::Key task_;  // Of the compute thread.

  mutable absl::Mutex mu_;
  bool awaited_ ABSL_GUARDED_BY(mu_) = false;
  bool serving_ ABSL_GUARDED_BY(mu_) = false;  // Handlers may be called.
  bool broken_ ABSL_GUARDED_BY(mu_) = false;
  Handlers handlers_ ABSL_GUARDED_BY(mu_);
  // Of the call that is served; null: none is.
  grpc::ServerContext* context_ ABSL_GUARDED_BY(mu_) = nullptr;
  Stream* stream_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool finishing_ ABSL_GUARDED_BY(mu_) = false;  // Its Finish was sent.

  absl::Mutex write_mu_;  // Held while a message is written.
};

// The link to the member before this one.
//
// The handlers are called on the link's own thread. Send may be called from any
// thread.
//
// Not thread-safe otherwise: call from the thread that owns the life.
class UpstreamLink final : public Neighbour {
 public:
  // `address` is that at which the member before listens. kInvalidArgument: it
  // may not be connected to.
  static absl::StatusOr<std::unique_ptr<UpstreamLink>> To(
      const std::string& address, MemberIdentity self,
      const TransportSecurity& security, Clock* clock = Clock::Real());
  ~UpstreamLink() override;

  struct Handlers {
    // What comes, but for activations.
    std::function<void(const proto::ToDownstream&)> on_message;
    std::function<void(const absl::Status&)> on_broken;
  };
  // Connects until the member before takes the link. OK also where `wait` was
  // stopped. kUnavailable: it has not for the timeout. kFailedPrecondition,
  // kPermissionDenied: its refusal.
  absl::Status Link(const LinkWait& wait, Handlers handlers);
  void Send(const proto::ToUpstream& message);
  void Unlink();

  void Begin(const GradientKey& task) override;
  absl::Status Send(int64_t pass, absl::Span<const uint8_t> bytes) override;
  absl::Status Receive(int64_t pass, absl::Span<uint8_t> into,
                       const CancelToken& cancel) override;
  void Wake() { queue_.Wake(); }

 private:
  using Stream =
      grpc::ClientReaderWriter<proto::ToUpstream, proto::ToDownstream>;

  UpstreamLink(std::string address, MemberIdentity self,
               const TransportSecurity& security, Clock* clock);
  absl::Status LinkOnce();
  void Read(Handlers handlers);
  std::string Name() const;  // "member 0 of worker 3 at host:port"

  // Constant after construction.
  const std::string address_;
  const MemberIdentity self_;
  Clock* const clock_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<proto::Member::Stub> stub_;

  ActivationQueue queue_;
  proto::Key task_;  // Of the compute thread.

  // Of the owner's thread; not while another reads.
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<Stream> stream_;
  std::thread reader_;

  absl::Mutex write_mu_;  // Held while a message is written.
};

}  // namespace sluice

#endif  // SLUICE_WORKER_PIPELINE_MEMBER_LINK_H_
