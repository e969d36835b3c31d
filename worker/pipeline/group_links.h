#ifndef SLUICE_WORKER_PIPELINE_GROUP_LINKS_H_
#define SLUICE_WORKER_PIPELINE_GROUP_LINKS_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/ids.h"
#include "common/job/resolved_job.h"
#include "common/tls/transport_security.h"
#include "proto/coordinator.pb.h"
#include "worker/pipeline/answer_merger.h"
#include "worker/pipeline/member_link.h"
#include "worker/pipeline/member_listener.h"
#include "worker/pipeline/slot_gradient.h"
#include "worker/pipeline/stage_model.h"

namespace sluice {

// Where a process is in its group, as its flags say.
struct MemberFlags {
  int member = 0;
  // Addresses of the members of the stage before, in order; the first stage has
  // none.
  std::vector<std::string> upstream = {};
  // For those of the stage behind; the last stage listens nowhere.
  std::string listen = {};
};

// kInvalidArgument: the flags do not fit the job, or name an address off this
// host without TLS.
absl::Status CheckMemberFlags(const MemberFlags& flags, const proto::Job& job,
                              const TransportSecurity& security);

// Where the members behind link to this one of `group`, with all its slots.
// Null: there are none. Errors are those of MemberListener::Listen.
absl::StatusOr<std::unique_ptr<MemberListener>> ListenForMembers(
    const MemberFlags& flags, const proto::Job& job, int group,
    const TransportSecurity& security);

// What links a member with those beside it, for the tasks of one slot. A worker
// of one process has no links, and everything here does nothing.
//
// A life of the worker, as this member sees it:
//
//   BeginLife       the members behind are there
//   AwaitWelcome    not of the first, which the coordinator welcomes
//   Welcomed        hands the Welcome on; Down and Up from now on
//   EndLife         the links end
//
// Down, Wake, Up and Sever may be called from any thread, and do not block.
//
// Not thread-safe otherwise: call from the thread that owns the life.
class GroupLinks {
 public:
  // Of the slot that is `worker`, whose waits for a neighbour are away from
  // `turn`. `listener` and `turn` must outlive it; null where there is nobody
  // behind, and where there is no group. Errors are those of UpstreamLink::To.
  // REQUIRES: CheckMemberFlags.
  static absl::StatusOr<std::unique_ptr<GroupLinks>> Open(
      const MemberFlags& flags, const ResolvedJob& job, WorkerId worker,
      MemberListener* listener, SlotTurn* turn,
      const TransportSecurity& security);
  ~GroupLinks() { EndLife(); }

  bool first() const { return before_ == nullptr; }
  int member() const { return flags_.member; }
  StageModel::Place place();
  // Names of this process and of those behind it, in the order of their stages.
  // After BeginLife.
  std::vector<std::string> Processes();
  // The narrowest of theirs, as in Join. After BeginLife.
  proto::InstructionSet InstructionSet();

  // What a life hears. Each may be called on any thread until EndLife, and must
  // not block.
  struct Life {
    // What the coordinator says, of a member that is not the first.
    std::function<void(const proto::FromCoordinator&)> on_message = {};
    // The answer of all members to a task, of the first.
    std::function<void(proto::ToCoordinator)> answer = {};
    // A neighbour is gone: the life is over.
    std::function<void(const absl::Status&)> on_broken;
    // Whether to give up waiting.
    std::function<bool()> stopped;
    // As in Join, of this process: a member behind with others is refused.
    std::map<std::string, std::string> inputs = {};
  };
  // Waits for the members behind. `rejoins`: they were there before. OK also
  // where the wait was stopped. kUnavailable names who has not come.
  absl::Status BeginLife(Life life, bool rejoins);
  // Links to the member before and waits for its Welcome. Nothing: the link
  // broke, or the wait was stopped, or the run is over. Errors are those of
  // UpstreamLink::Link.
  absl::StatusOr<std::optional<proto::Welcome>> AwaitWelcome(bool rejoins);
  void Welcomed(const proto::Welcome& welcome);
  // The shard that a member behind cannot reach.
  std::optional<UnreachedShard> unreached();
  // Of a member that is not the first: as UpstreamLink's, until EndLife.
  void TellUnreached(std::function<std::optional<UnreachedShard>()> unreached);
  void EndLife();
  // The life is over, but for EndLife: who computes no longer waits for a
  // neighbour. Nothing where the run is over, of which they hear in order.
  void Sever();
  // Why the life is over, where a neighbour is gone; else OK.
  absl::Status broken() const;

  // Hands what the coordinator says to the members behind.
  void Down(const proto::FromCoordinator& message);
  // Takes this member's answer to a task.
  void Up(proto::ToCoordinator answer);
  void Wake();

 private:
  GroupLinks(MemberFlags flags, const proto::Job& job)
      : flags_(std::move(flags)), job_(job) {}
  LinkWait WaitOf(bool rejoins) const;
  void OnUpstream(const proto::FromCoordinator& message);
  void Break(const absl::Status& why);
  void SeverBoth();

  // Constant after Open.
  const MemberFlags flags_;
  const proto::Job job_;
  proto::InstructionSet instruction_set_ = proto::INSTRUCTION_SET_UNSPECIFIED;
  std::unique_ptr<UpstreamLink> before_;
  std::unique_ptr<DownstreamLink> behind_;
  // The same for who computes.
  std::optional<SlotNeighbour> slot_before_, slot_behind_;

  Life life_;  // Constant between BeginLife and EndLife.
  std::unique_ptr<AnswerMerger> merger_;

  mutable absl::Mutex mu_;
  absl::Status broken_ ABSL_GUARDED_BY(mu_);
  std::optional<proto::Welcome> welcome_ ABSL_GUARDED_BY(mu_);
  bool over_ ABSL_GUARDED_BY(mu_) = false;  // The run is, or the life.
  // What goes down before the Welcome waits for it.
  bool welcomed_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<proto::FromCoordinator> held_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sluice

#endif  // SLUICE_WORKER_PIPELINE_GROUP_LINKS_H_
