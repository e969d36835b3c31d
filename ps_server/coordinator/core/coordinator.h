#ifndef SLUICE_PS_SERVER_COORDINATOR_CORE_COORDINATOR_H_
#define SLUICE_PS_SERVER_COORDINATOR_CORE_COORDINATOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/batch_grid.h"
#include "common/ids.h"
#include "common/job/learning_rate.h"
#include "common/telemetry/counter_table.h"
#include "ps_server/coordinator/core/awake_clock.h"
#include "ps_server/coordinator/core/coordinator_options.h"
#include "ps_server/coordinator/core/job_state.h"
#include "ps_server/coordinator/core/task_table.h"
#include "ps_server/coordinator/core/training_snapshot.h"
#include "ps_server/coordinator/core/training_stats.h"
#include "ps_server/coordinator/members/input_agreement.h"
#include "ps_server/coordinator/members/instruction_agreement.h"
#include "ps_server/coordinator/members/membership.h"
#include "ps_server/coordinator/policy/batch_schedule.h"
#include "ps_server/coordinator/policy/round_fold.h"
#include "ps_server/coordinator/policy/sync_policy.h"
#include "ps_server/coordinator/versions/checkpoints.h"
#include "ps_server/coordinator/versions/evaluations.h"
#include "ps_server/decisions/decision_stream.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// Hands out mini-batches, decides which gradients make up each version, and
// watches who is alive. Pure: events and the time go in, actions come out, in
// the order in which they must be carried out.
//
// `now` never decreases from call to call. Every method appends to `*out`,
// which is not cleared.
//
// Not thread-safe: call under one lock (in the daemon CoordinatorService's).
class Coordinator {
 public:
  Coordinator(CoordinatorOptions options, absl::Time now);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  struct JoinRequest {
    Peer peer;
    bool any_number = false;  // Another worker's than the peer's will do.
    Incarnation resume;       // Whose session it resumes; 0 for a new life.
    std::string address;      // Shards: of the Exchange service.
    std::string process;      // Host and process id, for people.
    std::vector<std::string> members;  // Of a worker of several processes.
    Inputs inputs;                     // What decides the bits besides the job.
    proto::InstructionSet instruction_set = {};  // For InstructionAgreement.
  };
  struct JoinReply {
    Peer peer;  // As which it has joined.
    Generation generation;
    Incarnation incarnation;
    bool resumed = false;  // The session's numbering goes on.
  };
  // Errors: kAlreadyExists (the id is taken by a living process), kAborted (the
  // resumed incarnation is over), kUnavailable (ask again: this generation is
  // over and the next one follows, or whether the one who has the id lives will
  // be known within its lease), kInvalidArgument (no such shard),
  // kFailedPrecondition (the run is over; another input than a process before
  // it, under SYNC also another device or too narrow instructions; or the job
  // does not allow any_number), kResourceExhausted (no number is left).
  absl::StatusOr<JoinReply> Join(const JoinRequest& request, absl::Time now,
                                 Actions* out);

  // Call first with every message of a peer: renews its lease, which the calls
  // below do not. kAborted: this incarnation is over and the message must be
  // ignored.
  absl::Status Heard(Peer peer, Incarnation incarnation, absl::Time now);
  // A worker or the evaluator has not reached a shard for so long, and goes on
  // trying; empty: it reaches all. For people only.
  void CannotReach(Peer peer, Incarnation incarnation, const std::string& whom,
                   absl::Duration for_so_long, absl::Time now);
  // What a peer has counted itself, by name. For people only.
  void Counted(Peer peer, Incarnation incarnation, CounterMap counters) {
    members_.Counted(peer, incarnation, std::move(counters));
  }
  // The stream broke; the lease runs on. Like Leave, it changes nothing where
  // the incarnation is over.
  void Disconnected(Peer peer, Incarnation incarnation, absl::Time now,
                    Actions* out);
  // The process leaves, perhaps `for_good`, and hands back its task.
  void Leave(Peer peer, Incarnation incarnation, const std::string& reason,
             absl::Time now, Actions* out, bool for_good = false);

  // Whoever started `process` has seen it end: the incarnations of all that it
  // is, of `peer`'s role, are over. kInvalidArgument: no such peer.
  absl::Status DeathReported(Peer peer, const std::string& process,
                             const std::string& reason, absl::Time now,
                             Actions* out);

  // Every shard has staged all of the gradient. kAborted: its task has ended
  // (the verdict has been or is being sent); kInvalidArgument: says what was
  // expected and what came. A repeat changes nothing: OK while the gradient
  // waits for its update, kAborted once it has its verdict. OK also for one too
  // stale to count: its verdict says so.
  absl::Status Ready(const Delivery& delivery, absl::Time now, Actions* out);
  // A shard refused the gradient (NaN or Inf); `reason` names the tensor.
  // kAborted: its task has ended; kInvalidArgument: it was Ready before.
  absl::Status Rejected(const GradientKey& key, const std::string& reason,
                        absl::Time now, Actions* out);
  // The shard has executed all decisions up to `number` and stands at
  // `version`. A non-empty `fault` says which decision it could not execute; it
  // ends the generation, and where it was the Restore, the run.
  // kInvalidArgument: no such shard, or a number never sent; kDataLoss: the
  // version is behind, which ends the generation, too.
  absl::Status Executed(ShardId shard, int64_t number, Version version,
                        const std::string& fault, absl::Time now, Actions* out);
  // The shard has written its part of the checkpoint of `version`, or could
  // not. kInvalidArgument: no such shard. A repeat, and what nobody waits for
  // any more, only cause what is left of it to be removed.
  absl::Status Stored(ShardId shard, Version version, StoredPart part,
                      absl::Time now, Actions* out);
  // The answer to StoreManifest; `error` is empty when it is on the disk.
  void ManifestWritten(Version version, const std::string& error,
                       absl::Time now, Actions* out);
  // An answer that nobody waits for changes nothing.
  void Evaluated(const Evaluation& evaluation, absl::Time now, Actions* out);

  // Ends the run as if a stop condition had been reached; where this generation
  // is over, State() keeps it for the next one.
  void RequestStop(const std::string& reason, absl::Time now, Actions* out);
  // Has the next version stored, and returns it. kFailedPrecondition: the job
  // has no checkpoints, or does not train; kUnavailable: one is being written.
  absl::StatusOr<Version> RequestCheckpoint(absl::Time now, Actions* out);

  // Every `options.tick`: expires leases and deadlines; or no time has passed.
  void Tick(absl::Time now, Actions* out);
  void Stand(absl::Time now) { clock_.Stand(now); }

  // What a checkpoint of the newest version decided holds besides the weights.
  TrainingSnapshot TakeSnapshot(absl::Time now) const;

  // Everything a status page shows.
  JobState State(absl::Time now) const;

 private:
  // Every event is handled in the same way: its method begins with a Turn and
  // changes the parts; the Turn's end does all that follows.
  class Turn {
   public:
    Turn(Coordinator* of, absl::Time now, Actions* out, bool is_tick = false);
    ~Turn() { of_.Settle(); }

   private:
    Coordinator& of_;
  };

  static constexpr int kMostOverruns = 5, kMostLosses = 10;
  // coordinator.cc: who comes and goes.
  void Settle();
  void PeerLost(Peer peer, const std::string& why);
  void EndLife(Peer peer, const std::string& why);
  void WorkerLost(WorkerId worker, const std::string& why);
  void EvaluatorLost(const std::string& why);
  void ExpireLeases();
  void ExpireTasks();

  // coordinator_tasks.cc: from a worker that may start to a verdict.
  void AssignTasks();
  bool AssignOne();
  bool FreeForTurn();
  bool Admitted(int64_t turn) const;
  std::optional<WorkerId> ChooseWorker(
      const BatchSchedule::Candidate& candidate) const;
  void IssueTask(WorkerId worker, BlockId block);
  absl::Status CheckDelivery(const OpenTask& open,
                             const Delivery& delivery) const;
  OpenTask EndTask(GradientKey key, Outcome outcome, const std::string& reason);
  void EndAndReturn(GradientKey key, Outcome outcome,
                    const std::string& reason);
  void EndAllTasks(Outcome outcome, const std::string& reason);
  void TaskOverran(GradientKey key);
  absl::Duration DeadlineAfter(int overruns) const;
  std::string DescribeOverruns() const;
  void RefreshSupply(BlockId block);
  void RefreshAllSupplies();
  void SendVerdictTo(const GradientKey& key, Outcome outcome,
                     const std::string& reason, Version version);

  // coordinator_updates.cc: from ready gradients to a version.
  void DecideUpdates();
  void DecideFold();
  void CommitUpdate();
  std::vector<OpenTask> CloseUpdate(Version version);
  void EmitCommit(const std::vector<OpenTask>& entries,
                  std::optional<double> loss, Version version);
  void EndOutdated();
  bool RoundExhausted() const;
  void BeginRound(BlockId first);
  int64_t StillToCome() const;
  bool Short() const;
  std::string DescribeShortage() const;
  void WatchShortage();
  void DecideDiscard();
  void Decide(AnyDecision what);

  // coordinator_checkpoints.cc
  void MaybeStore();
  void StoreNewest();
  std::string StoringWaitsFor() const;
  void DropIfGivenUp(Version version);
  void GiveUpStoring(const std::string& why);
  void CheckStoringDeadline();
  bool LastVersionStored();
  std::optional<CheckpointState> StateOfCheckpoints() const;

  // coordinator_phases.cc: start, evaluations, end.
  void MaybeStart();
  bool GoesOn() const;
  std::vector<Peer> Expected() const;
  bool AllHere() const;
  bool MayBegin() const;
  void AgreeOnInstructions();
  std::optional<std::string> StopReason() const;
  void CheckStop();
  void BeginFinish(const std::string& reason);
  void ProgressFinish();
  void Finish(const std::string& failure, const std::string& reason);
  void Fail(const std::string& failure);
  void FailAtEnd(const std::string& failure);
  void Recover(const std::string& why);
  bool over() const;
  void MaybeEvaluate();
  void StartEvaluation(bool final);
  void CheckDeadlines();
  void EvaluationOverran(Evaluations::Running running);
  void NotEvaluated(Evaluations::Running given_up, const std::string& why,
                    const std::string& advice);
  std::string MissingPeers() const;
  void Emit(Action action) { out_->push_back(std::move(action)); }
  void Say(Announce::Level level, std::string text);

  // coordinator_state.cc
  std::pair<std::string, absl::Time> WaitingFor() const;
  std::pair<std::string, absl::Time> StragglersWaitedFor() const;
  std::pair<std::string, absl::Time> IdlersWaitFor() const;
  double Progress(absl::Time now) const;
  absl::Duration Running(absl::Time now) const;

  // Constant after construction.
  const CoordinatorOptions options_;
  const proto::Job& job_;  // options_.job.
  const LearningRateOptions learning_rate_;
  const BatchGrid grid_;
  const absl::Time created_;
  const ResumePoint begins_;

  // Of the event being handled.
  absl::Time now_, awake_;  // Awake: AwakeClock's, of leases and deadlines.
  Actions unsaid_;  // What the constructor says; it comes with the first turn.
  Actions* out_ = &unsaid_;
  std::vector<GradientKey> discarded_;

  // How the run stands.
  AwakeClock clock_;
  Membership members_;
  InputAgreement agreement_;
  InstructionAgreement instructions_;
  BatchSchedule schedule_;
  SyncPolicy policy_;
  std::optional<RoundFold> fold_;  // If shards fold.
  TaskTable tasks_;
  DecisionStream stream_;
  Evaluations evaluations_;
  Checkpoints checkpoints_;
  TrainingStats stats_;

  Phase phase_ = Phase::kStarting;
  std::string message_, failure_at_end_;
  std::optional<absl::Time> started_;
  absl::Time ended_;
  std::optional<std::string> stop_requested_;
  bool restore_sent_ = false;
  BlockId round_;           // First block of the version, under SYNC.
  std::set<int> unserved_;  // STATIC: partitions without a living worker.
  size_t last_update_size_ = 0;
  std::shared_ptr<const TrainingSnapshot> snapshot_;  // Of the one running.
  std::optional<Evaluation> last_evaluation_, final_evaluation_;

  // Awake times. Restored: when the shards had their weights.
  std::optional<absl::Time> restored_, short_since_;
  absl::Time finishing_since_, evaluator_lost_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_CORE_COORDINATOR_H_
