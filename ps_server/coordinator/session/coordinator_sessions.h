#ifndef SLUICE_PS_SERVER_COORDINATOR_SESSION_COORDINATOR_SESSIONS_H_
#define SLUICE_PS_SERVER_COORDINATOR_SESSION_COORDINATOR_SESSIONS_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/grant.h"
#include "common/ids.h"
#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/core/coordinator.h"
#include "ps_server/coordinator/session/frame_sink.h"
#include "ps_server/coordinator/session/session_table.h"

namespace sluice {

// Another process has taken the next generation.
struct Superseded {};

// How a generation ends: with the run, before the next one, or because somebody
// else goes on with the run.
using GenerationEnd = std::variant<FinishRun, EndGeneration, Superseded>;

// The Coordinator with its peers' sessions: what becomes of each frame that
// arrives, and which frames go out for what is decided. Pure but for the
// connections it writes to: CoordinatorService puts gRPC, a lock, a clock and
// the commit log around it, the simulation a network of its own.
//
// What is decided is handed out by TakeActions; the owner records what is to
// be in the commit log and then gives each action to Send, in order.
//
// Of the counters in a heartbeat at most 64 are kept, those with names of at
// most 64 letters, digits, '_' and '.'; whether anybody here knows a name does
// not matter. What is left out of a heartbeat is counted among the sender's
// counters as `counters_left_out`.
//
// `now` never decreases.
//
// Not thread-safe: call under the owner's lock.
class CoordinatorSessions {
 public:
  CoordinatorSessions(CoordinatorOptions options, absl::Time now);

  // A frame has arrived on `connection`; a Join is of this job (JobAgreement).
  // OK, or the status with which the owner must End the connection:
  //   kAborted             the incarnation is over
  //   kPermissionDenied    a Join that does not know the session it resumes
  //   kInvalidArgument     a malformed or unexpected frame
  //   and what Coordinator::Join refuses.
  absl::Status OnFrame(const std::shared_ptr<FrameSink>& connection,
                       const proto::ToCoordinator& frame, absl::Time now);
  // The connection is gone; nothing more arrives on it.
  void OnBroken(const FrameSink* connection, absl::Time now);
  // A worker's Ready that has not come on its session. kInvalidArgument, or
  // kAborted: its task has ended.
  absl::Status OnReady(const proto::Ready& ready, absl::Time now);
  // kInvalidArgument: the job has no such process.
  absl::Status OnDeathReport(const proto::DeathReport& report, absl::Time now);
  // As Coordinator's. Local peers are alive.
  void Tick(absl::Time now);
  void Stand(absl::Time now) { core_.Stand(now); }
  void ManifestWritten(Version version, const std::string& error,
                       absl::Time now) {
    core_.ManifestWritten(version, error, now, &actions_);
  }
  void RequestStop(const std::string& reason, absl::Time now) {
    core_.RequestStop(reason, now, &actions_);
  }

  absl::StatusOr<Version> RequestCheckpoint(absl::Time now) {
    return core_.RequestCheckpoint(now, &actions_);
  }

  // What has been decided since the last call.
  Actions TakeActions() { return std::exchange(actions_, {}); }
  bool has_actions() const { return !actions_.empty(); }
  // Puts the frames that follow from `action`, if any, on their connections.
  // May add actions: a peer that acknowledges nothing is made to leave.
  void Send(const Action& action, absl::Time now);
  // Tells everybody that the run is over, unless something else is.
  void Finish(const FinishRun& finish);
  // Somebody else has taken the next generation: everybody is to join that one.
  void Supersede();
  // The connections to flush, each once, since the last call.
  std::vector<std::shared_ptr<FrameSink>> TakeTouched() {
    return table_.TakeTouched();
  }

  JobState State(absl::Time now) const { return core_.State(now); }
  // Of all shards, in order; empty until every one of them is here.
  std::vector<std::string> ShardAddresses() const {
    return table_.ShardAddresses();
  }
  // How the run or this generation ended; empty while it runs.
  const std::optional<GenerationEnd>& end() const { return end_; }
  // The same of the run; empty also where only this generation ended.
  const std::optional<FinishRun>& finish() const { return finish_; }
  // Nobody is left who ought to hear of the end of the run.
  bool EverybodyTold() const { return table_.EverybodyTold(); }

 private:
  using Seat = SessionTable::Seat;

  absl::Status OnJoin(const std::shared_ptr<FrameSink>& connection,
                      const proto::ToCoordinator& frame, absl::Time now);
  absl::Status OnMessage(const FrameSink& connection,
                         const proto::ToCoordinator& frame, absl::Time now);
  // kInvalidArgument: no session can have its secret. kPermissionDenied: it
  // would resume a session that has another one.
  absl::Status CheckSecret(const proto::Join& join, Peer peer);
  absl::Status CheckGeneration(const proto::Join& join) const;
  // Lets the core judge a Join.
  absl::StatusOr<Coordinator::JoinReply> JoinCore(const proto::Join& join,
                                                  Peer peer, absl::Time now);
  // The same when the run is over: whoever comes is let in, to hear of it.
  absl::StatusOr<Coordinator::JoinReply> JoinAfterTheEnd(Peer peer,
                                                         Incarnation resume);
  // As whom a worker joins then to whom any number will do.
  Peer AnyWorkerAfterTheEnd();
  proto::FromCoordinator WelcomeFrame(Peer peer, Incarnation incarnation) const;
  // Something is known that those who joined before wait for.
  void WelcomeAgain();
  // This generation ends so: everybody's session ends, and he may join the next
  // one.
  void EndWith(const GenerationEnd& end, const std::string& why);
  void SendTo(const Task& task);
  // Hands the body of a new message to the core.
  absl::Status Dispatch(const Seat& seat, const proto::ToCoordinator& frame,
                        absl::Time now);

  // Constant after construction.
  const CoordinatorOptions options_;
  const GrantKey grants_;

  proto::InstructionSet instruction_set_;  // The run's, once it is recorded.
  Coordinator core_;
  SessionTable table_;
  Actions actions_;
  std::optional<GenerationEnd> end_;
  std::optional<FinishRun> finish_;  // What `end_` is, if it is one.
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_SESSION_COORDINATOR_SESSIONS_H_
