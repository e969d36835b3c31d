#ifndef SLUICE_PS_SERVER_COORDINATOR_CORE_COORDINATOR_IMPL_H_
#define SLUICE_PS_SERVER_COORDINATOR_CORE_COORDINATOR_IMPL_H_

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
#include "ps_server/coordinator/core/awake_clock.h"
#include "ps_server/coordinator/core/checkpoints.h"
#include "ps_server/coordinator/core/coordinator.h"
#include "ps_server/coordinator/core/evaluations.h"
#include "ps_server/coordinator/core/input_agreement.h"
#include "ps_server/coordinator/core/membership.h"
#include "ps_server/coordinator/core/task_table.h"
#include "ps_server/coordinator/core/training_stats.h"
#include "ps_server/coordinator/policy/batch_schedule.h"
#include "ps_server/coordinator/policy/k_schedule.h"
#include "ps_server/coordinator/policy/sync_policy.h"
#include "ps_server/decisions/decision_stream.h"

namespace sluice {

// Composes the parts. Every event is handled in the same way: Enter() takes
// the time, one function changes the parts, Settle() does all that follows
// until nothing more does.
//
// Not thread-safe: call from Coordinator.
class Coordinator::Impl {
 public:
  Impl(CoordinatorOptions options, absl::Time now);

  // coordinator.cc: who comes and goes.
  absl::StatusOr<JoinReply> Join(const JoinRequest& request);
  absl::Status Heard(Peer peer, Incarnation incarnation, absl::Time now);
  void CannotReach(Peer peer, Incarnation incarnation, const std::string& whom,
                   absl::Duration for_so_long, absl::Time now);
  void Disconnected(Peer peer, Incarnation incarnation);
  void Leave(Peer peer, Incarnation incarnation, const std::string& reason);
  absl::Status DeathReported(Peer peer, const std::string& process,
                             const std::string& reason);
  void Tick();

  // coordinator_tasks.cc
  absl::Status Ready(const Delivery& delivery);
  absl::Status Rejected(const GradientKey& key, const std::string& reason);

  // coordinator_updates.cc
  absl::Status Executed(ShardId shard, int64_t number, Version version,
                        const std::string& fault);

  // coordinator_checkpoints.cc
  absl::Status Stored(ShardId shard, Version version, StoredPart part);
  void ManifestWritten(Version version, const std::string& error);

  // coordinator_phases.cc
  void Evaluated(const Evaluation& evaluation);
  void RequestStop(const std::string& reason);

  // coordinator_state.cc
  JobState State(absl::Time now) const;
  TrainingSnapshot TakeSnapshot(absl::Time now) const;

  void Enter(absl::Time now, Actions* out, bool is_tick = false);
  void Settle();

 private:
  static constexpr int kMostOverruns = 5;
  // coordinator.cc
  void PeerLost(Peer peer, const std::string& why);
  void EndLife(Peer peer, const std::string& why);
  void WorkerLost(WorkerId worker, const std::string& why);
  void EvaluatorLost();
  void ExpireLeases();
  void ExpireTasks();

  // coordinator_tasks.cc: from a worker that may start to a verdict.
  void AssignTasks();
  bool AssignOne();
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
  void CommitUpdate();
  std::vector<OpenTask> CloseUpdate(Version version);
  void EmitCommit(const std::vector<OpenTask>& entries, Version version);
  void EndOutdated();
  bool RoundExhausted() const;
  void BeginRound(BlockId first);
  int64_t StillToCome() const;
  bool Short() const;
  std::string DescribeShortage() const;
  void WatchShortage();
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
  bool MayBegin() const;
  std::optional<std::string> StopReason() const;
  void CheckStop();
  void BeginFinish(const std::string& reason);
  void ProgressFinish();
  void Finish(const std::string& failure, const std::string& reason);
  void Fail(const std::string& failure);
  void Recover(const std::string& why);
  bool over() const;
  void MaybeEvaluate();
  void StartEvaluation(bool final);
  void CheckDeadlines();
  void EvaluationOverran(Evaluations::Running running);
  std::string MissingPeers() const;

  void Emit(Action action) { out_->push_back(std::move(action)); }
  void Say(Announce::Level level, std::string text);

  // coordinator_state.cc
  std::pair<std::string, absl::Time> WaitingFor() const;
  std::pair<std::string, absl::Time> IdlersWaitFor() const;
  double Progress(absl::Time now) const;
  absl::Duration Running(absl::Time now) const;

  // Constant after construction.
  const CoordinatorOptions options_;
  const BatchGrid grid_;
  const absl::Time created_;
  const ResumePoint begins_;

  // The event being handled.
  absl::Time now_;
  absl::Time awake_;  // AwakeClock's time: leases and deadlines run on it.
  Actions* out_ = nullptr;

  AwakeClock clock_;
  Membership members_;
  InputAgreement agreement_;
  BatchSchedule schedule_;
  SyncPolicy policy_;
  KSchedule k_schedule_;
  TaskTable tasks_;
  DecisionStream stream_;
  Evaluations evaluations_;
  Checkpoints checkpoints_;
  TrainingStats stats_;

  Phase phase_ = Phase::kStarting;
  std::string message_;
  std::optional<absl::Time> started_;
  absl::Time ended_;
  std::optional<std::string> stop_requested_;
  bool restore_sent_ = false;
  BlockId round_;           // First block of the version, under SYNC.
  std::set<int> unserved_;  // STATIC: partitions without a living worker.
  size_t last_update_size_ = 0;
  std::shared_ptr<const TrainingSnapshot> snapshot_;  // Of the one running.
  std::optional<Evaluation> last_evaluation_;
  std::optional<Evaluation> final_evaluation_;

  // Awake times.
  std::optional<absl::Time> restored_;  // When the shards had their weights.
  absl::Time finishing_since_;
  absl::Time evaluator_lost_;
  std::optional<absl::Time> short_since_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_CORE_COORDINATOR_IMPL_H_
