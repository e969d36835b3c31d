#ifndef SLUICE_WORKER_PIPELINE_GROUP_LINKS_H_
#define SLUICE_WORKER_PIPELINE_GROUP_LINKS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/ids.h"
#include "common/resolved_job.h"
#include "common/tls/transport_security.h"
#include "proto/coordinator.pb.h"
#include "worker/pipeline/answer_merger.h"
#include "worker/pipeline/member_link.h"
#include "worker/pipeline/stage_model.h"

namespace sluice {

// Where a member is in its worker, as its flags say.
struct MemberFlags {
  int member = 0;
  std::string upstream;  // Address of the member before; the first has none.
  std::string listen;    // For the one behind; the last listens nowhere.
};

// What links a member with those beside it. A worker of one member has none,
// and everything here does nothing.
//
// A life of the worker, as this member sees it:
//
//   BeginLife       the members behind are there
//   AwaitWelcome    not of the first, which the coordinator welcomes
//   Welcomed        hands the Welcome on; Down and Up from now on
//   EndLife         the links end
//
// Down, Wake and Up may be called from any thread.
//
// Not thread-safe otherwise: call from the thread that owns the life.
class GroupLinks {
 public:
  // kInvalidArgument: the flags do not fit the job.
  static absl::StatusOr<std::unique_ptr<GroupLinks>> Open(
      const MemberFlags& flags, const ResolvedJob& job, WorkerId worker,
      const TransportSecurity& security);
  ~GroupLinks() { EndLife(); }

  bool first() const { return before_ == nullptr; }
  StageModel::Place place() const;

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
  };
  // Waits for the members behind. `rejoins`: they were there before. OK also
  // where the wait was stopped. kUnavailable names who has not come.
  absl::Status BeginLife(Life life, bool rejoins);
  // Links to the member before and waits for its Welcome. Nothing: the link
  // broke, or the wait was stopped, or the run is over. Errors are those of
  // UpstreamLink::Link.
  absl::StatusOr<std::optional<proto::Welcome>> AwaitWelcome(bool rejoins);
  void Welcomed(const proto::Welcome& welcome);
  void EndLife();
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

  // Constant after Open.
  const MemberFlags flags_;
  const proto::Job job_;
  std::unique_ptr<UpstreamLink> before_;
  std::unique_ptr<DownstreamLink> behind_;

  Life life_;  // Constant between BeginLife and EndLife.
  std::unique_ptr<AnswerMerger> merger_;

  mutable absl::Mutex mu_;
  absl::Status broken_ ABSL_GUARDED_BY(mu_);
  std::optional<proto::Welcome> welcome_ ABSL_GUARDED_BY(mu_);
  bool over_ ABSL_GUARDED_BY(mu_) = false;  // The run is.
  // What goes down before the Welcome waits for it.
  bool welcomed_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<proto::FromCoordinator> held_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sluice

#endif  // SLUICE_WORKER_PIPELINE_GROUP_LINKS_H_
