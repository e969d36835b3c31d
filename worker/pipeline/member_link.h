#ifndef SLUICE_WORKER_PIPELINE_MEMBER_LINK_H_
#define SLUICE_WORKER_PIPELINE_MEMBER_LINK_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/tls/transport_security.h"
#include "proto/member.grpc.pb.h"
#include "worker/exchange/shard_calls.h"
#include "worker/pipeline/activation_queue.h"
#include "worker/pipeline/link_writer.h"
#include "worker/pipeline/member_listener.h"
#include "worker/pipeline/neighbour.h"
#include "worker/pipeline/silence_watch.h"

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
  // Which the one before and the one behind are: with replicas not the next
  // numbers.
  int before = 0, behind = 0;
  // The one behind has others behind it, for which it waits first.
  bool more = false;
  // As in Join, its own.
  proto::InstructionSet instruction_set = proto::INSTRUCTION_SET_UNSPECIFIED;
};

// What decides the bits of a group's gradients besides the job, by name, as in
// Join; of this and those behind it. Without what may differ under the policy.
using MemberInputs = std::map<std::string, std::string>;

// What is known of the members behind one.
struct MembersBehind {
  std::vector<std::string> processes = {};  // In the order of their stages.
  // The narrowest of theirs; of nobody: unspecified.
  proto::InstructionSet instruction_set = proto::INSTRUCTION_SET_UNSPECIFIED;
  MemberInputs inputs = {};
};

// How a link is waited for.
struct LinkWait {
  absl::Duration timeout;
  std::string field;              // Of the job, that gave it.
  std::function<bool()> stopped;  // Asked about every 100 ms.
};

// What one end of a link hears.
template <typename Message>
struct LinkHandlers {
  // What comes, but for activations, their gradients and heartbeats. Must not
  // block.
  std::function<void(const Message&)> on_message;
  // The link has broken: who is gone. Before Receive says so.
  std::function<void(const absl::Status&)> on_broken;
};

// As limits.lease_s.
inline constexpr absl::Duration kDefaultLease = absl::Seconds(5);

// An end of a link, as the thread that computes sees it. A neighbour that is
// silent for a lease is gone, and nobody waits for it any longer: neither who
// sends to it nor who receives.
class LinkEnd : public Neighbour {
 public:
  void Begin(const GradientKey& task) final;
  void Send(int64_t pass, absl::Span<const uint8_t> bytes) final;
  absl::Status Receive(int64_t pass, absl::Span<uint8_t> into,
                       const CancelToken& cancel) final;
  // Makes Receive look at its token. From any thread.
  void Wake() { queue_.Wake(); }
  // Breaks the link, if there is one: who sends and who receives no longer
  // waits. From any thread; does not block.
  virtual void Sever() = 0;

 protected:
  explicit LinkEnd(absl::Duration lease) : watch_(lease) {}
  virtual void WritePiece(proto::Activations piece) = 0;
  // Severs the link where nothing is heard; until the watch is closed.
  std::thread Watch();

  ActivationQueue queue_;
  SilenceWatch watch_;

 private:
  proto::Key task_;  // Of the compute thread.
};

// The link to the member behind this one, which connects here.
//
// The handlers are called on a thread of the server's. Tell may be called from
// any thread, and does not block.
//
// Not thread-safe otherwise: call from the thread that owns the life.
class DownstreamLink final : public LinkEnd {
 public:
  // Of what comes to `listener`, which must outlive it, the worker's. A
  // neighbour that is silent for `lease` is gone.
  DownstreamLink(MemberListener* listener, MemberIdentity self,
                 absl::Duration lease = kDefaultLease,
                 Clock* clock = Clock::Real());
  ~DownstreamLink() override;

  using Handlers = LinkHandlers<proto::ToCoordinator>;
  // Waits until the member behind has linked, which it does when all those
  // behind it have. OK also where `wait` was stopped. kUnavailable: it has not
  // come for the timeout, and no handler runs. Else the handlers stay until
  // Unlink. One whose inputs are not `inputs` is refused.
  absl::Status Await(const LinkWait& wait, Handlers handlers,
                     const MemberInputs& inputs = {});
  // The one that has linked last, and those behind it.
  MembersBehind members();
  // The shard that it, or one behind it, has said last that it cannot reach.
  std::optional<UnreachedShard> unreached();
  // Hands the member what the coordinator says; nothing where it is gone.
  void Tell(const proto::FromCoordinator& message);
  // Ends the link, if there is one: of a run that is over when the member has
  // heard so, for at most 2 s. No handler runs any more.
  void Unlink();
  void Sever() override;

 private:
  // Serves one call until it ends.
  absl::Status Serve(const proto::MemberHello& hello, MemberCall* call);
  // Makes it that of this link, if one is awaited; who hears what comes on it.
  absl::StatusOr<Handlers> Take(const proto::MemberHello& hello,
                                MemberCall* call);
  void Read(const Handlers& handlers, MemberCall* call);
  void Heard(const proto::ToCoordinator& message);
  absl::Status CheckHello(const proto::MemberHello& hello) const;
  absl::Status CheckInputs(const proto::MemberHello& hello) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WritePiece(proto::Activations piece) override;
  std::string Name() const;  // "member 1 of worker 3"

  // Constant after construction.
  MemberListener& listener_;
  const MemberIdentity self_;
  Clock* const clock_;

  absl::Mutex mu_;  // Before a writer's.
  bool awaited_ ABSL_GUARDED_BY(mu_) = false;
  bool serving_ ABSL_GUARDED_BY(mu_) = false;  // Handlers may be called.
  bool broken_ ABSL_GUARDED_BY(mu_) = false;
  Handlers handlers_ ABSL_GUARDED_BY(mu_);
  MemberInputs inputs_ ABSL_GUARDED_BY(mu_);
  MembersBehind members_ ABSL_GUARDED_BY(mu_);
  std::optional<UnreachedShard> unreached_ ABSL_GUARDED_BY(mu_);
  MemberCall* call_ ABSL_GUARDED_BY(mu_) = nullptr;  // Null: none is served.
  bool linked_ ABSL_GUARDED_BY(mu_) = false;         // It has a writer.
  bool finishing_ ABSL_GUARDED_BY(mu_) = false;      // Its Finish was told.
};

// The link to the member before this one.
//
// The handlers are called on the link's own thread. Tell may be called from any
// thread, and does not block.
//
// Not thread-safe otherwise: call from the thread that owns the life.
class UpstreamLink final : public LinkEnd {
 public:
  // `address` is that at which the member before listens; one that is silent
  // for `lease` is gone. kInvalidArgument: it may not be connected to.
  static absl::StatusOr<std::unique_ptr<UpstreamLink>> To(
      const std::string& address, MemberIdentity self,
      const TransportSecurity& security, absl::Duration lease = kDefaultLease,
      Clock* clock = Clock::Real());
  ~UpstreamLink() override;

  using Handlers = LinkHandlers<proto::FromCoordinator>;
  // Connects until the member before takes the link. OK also where `wait` was
  // stopped. kUnavailable: it has not for the timeout. kFailedPrecondition,
  // kPermissionDenied: its refusal.
  // `behind`: those behind this one; its inputs are also this one's.
  absl::Status Link(const LinkWait& wait, Handlers handlers,
                    const MembersBehind& behind = {});
  // From now on until Unlink it is told which shard `unreached` returns, which
  // is called from any thread and must not block.
  void TellUnreached(std::function<std::optional<UnreachedShard>()> unreached);
  // Hands it an answer for the coordinator; nothing where it is gone.
  void Tell(const proto::ToCoordinator& answer);
  void Unlink();
  void Sever() override;

 private:
  struct Call;
  // Whom to ask before each beat. A writer that is held up may outlive this.
  struct Beat {
    proto::ToUpstream Message(Clock* clock);

    absl::Mutex mu;  // Before those of whoever is asked.
    std::function<std::optional<UnreachedShard>()> unreached
        ABSL_GUARDED_BY(mu);
  };

  UpstreamLink(std::string address, MemberIdentity self,
               const TransportSecurity& security, absl::Duration lease,
               Clock* clock);
  absl::StatusOr<std::shared_ptr<Call>> LinkOnce(const MembersBehind& behind);
  void Read(const Handlers& handlers, Call* call);
  void WritePiece(proto::Activations piece) override;
  std::string Name() const;  // "member 0 of worker 3 at host:port"

  // Constant after construction.
  const std::string address_;
  const MemberIdentity self_;
  Clock* const clock_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<proto::Member::Stub> stub_;
  const std::shared_ptr<Beat> beat_ = std::make_shared<Beat>();

  absl::Mutex mu_;                                   // Before a writer's.
  std::shared_ptr<Call> call_ ABSL_GUARDED_BY(mu_);  // Null: no link.

  std::thread reader_, watcher_;  // Of the owner's thread.
};

}  // namespace sluice

#endif  // SLUICE_WORKER_PIPELINE_MEMBER_LINK_H_
