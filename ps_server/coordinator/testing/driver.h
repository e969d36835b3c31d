#ifndef SLUICE_PS_SERVER_COORDINATOR_TESTING_DRIVER_H_
#define SLUICE_PS_SERVER_COORDINATOR_TESTING_DRIVER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ps_server/coordinator/core/coordinator.h"

namespace sluice {

// Plays workers, shards and evaluator against a Coordinator, one step at a
// time, for tests that say exactly what happens.
//
// Not thread-safe: call from one thread.
class Driver {
 public:
  explicit Driver(const CoordinatorOptions& options);

  // Everybody joins, the shards load version 0: the run begins.
  void Start();
  absl::StatusOr<Coordinator::JoinReply> Join(
      Peer peer, int64_t resume = 0,
      const std::map<std::string, std::string>& inputs = {});
  void JoinWorker(int64_t worker);
  // A worker for which any number will do, best `wished`.
  absl::StatusOr<Coordinator::JoinReply> JoinAny(int64_t wished = 0);
  void Disconnect(Peer peer);
  void Leave(Peer peer, bool for_good = false);
  // The peer says whom it has not reached for so long.
  void CannotReach(Peer peer, const std::string& whom,
                   absl::Duration for_so_long) {
    coordinator_.CannotReach(peer, heard_.at(peer), whom, for_so_long, now_);
  }
  // Whoever started `process` says that it was "killed"; who joins here is
  // "test".
  absl::Status ReportDeath(Peer peer, const std::string& process);
  // From now on the peer is not heard of when time passes.
  void Silence(Peer peer) { heard_.erase(peer); }
  // Time passes in ticks; who is not silent is heard of at each.
  void Advance(absl::Duration duration);
  // Time passes without a tick or a word, then one tick comes: a pause.
  void Pause(absl::Duration duration);

  // The worker's task that it has been sent and that has not ended.
  std::optional<Task> TaskOf(int64_t worker) const;
  // Mini-batch of that task; -1 for none.
  int64_t BatchOf(int64_t worker) const;
  // Delivers the gradient of that task, computed at `base` (default: the
  // task's version). Errors as Coordinator::Ready's.
  // REQUIRES (also Reject): the worker has a task.
  absl::Status Deliver(int64_t worker);
  absl::Status DeliverAt(int64_t worker, int64_t base);
  absl::Status Deliver(const Task& task, int64_t base);
  absl::Status Reject(int64_t worker);
  // The training loss of what is delivered from now on; 1 at first.
  void ReportLoss(double loss) { loss_ = loss; }
  void Evaluated(int64_t version, double accuracy = 0.5,
                 const std::string& error = "", int64_t samples = 8);
  void RequestStop();
  absl::StatusOr<Version> RequestCheckpoint();
  // The shard's part of the checkpoint of `version` is on the disk, unless
  // `error` says why not; then its manifest.
  void Stored(int64_t shard, int64_t version, const std::string& error = "");
  void ManifestWritten(int64_t version, const std::string& error = "");

  // Shards execute at once what they are sent, unless held.
  void HoldShard(int64_t shard) { held_.insert(shard); }
  void ReleaseShard(int64_t shard);
  // A shard says it has executed everything up to `number`, held or not.
  absl::Status Execute(int64_t shard, int64_t number);

  Coordinator& coordinator() { return coordinator_; }
  absl::Time now() const { return now_; }
  TrainingSnapshot TakeSnapshot() const {
    return coordinator_.TakeSnapshot(now_);
  }
  JobState State() const { return coordinator_.State(now_); }
  int64_t version() const { return State().version.value(); }

  // What came out since the start, or since the last Forget().
  void Forget() { out_.clear(); }
  const Actions& out() const { return out_; }
  template <typename T>
  std::vector<T> All() const {
    std::vector<T> all;
    for (const Action& action : out_) {
      if (const T* t = std::get_if<T>(&action)) all.push_back(*t);
    }
    return all;
  }
  template <typename T>
  std::vector<T> Decisions() const {
    std::vector<T> all;
    for (const auto& send : All<SendDecision>()) {
      if (const T* t = std::get_if<T>(&send.decision.what)) all.push_back(*t);
    }
    return all;
  }
  // Mini-batches of each commit since the last Forget().
  std::vector<std::vector<int64_t>> CommittedBatches() const;
  std::optional<FinishRun> Finished() const;
  // The verdict of a key, if it came since the last Forget().
  std::optional<SendVerdict> VerdictOf(const GradientKey& key) const;

 private:
  absl::StatusOr<Coordinator::JoinReply> Ask(
      const Coordinator::JoinRequest& request);
  // Carries out what came in `actions`, until nothing more does.
  void Take(Actions actions);
  void ExecutePending();

  const CoordinatorOptions options_;
  absl::Time now_ = absl::UnixEpoch();
  Coordinator coordinator_;
  double loss_ = 1;
  Actions out_;
  std::map<Peer, Incarnation> heard_;
  std::map<int64_t, Task> task_;
  std::set<int64_t> held_;
  std::vector<int64_t> executed_;          // By shard.
  std::vector<int64_t> version_at_ = {0};  // After each decision.
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_TESTING_DRIVER_H_
