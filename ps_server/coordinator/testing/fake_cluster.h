#ifndef SLUICE_PS_SERVER_COORDINATOR_TESTING_FAKE_CLUSTER_H_
#define SLUICE_PS_SERVER_COORDINATOR_TESTING_FAKE_CLUSTER_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/random.h"
#include "ps_server/coordinator/core/coordinator.h"
#include "ps_server/coordinator/testing/invariant_checker.h"

namespace sluice {

// What goes wrong, in chances per thousand steps of a process.
struct FakeFaults {
  int kill = 0;       // A worker dies; a new life joins some time later.
  int reconnect = 0;  // A worker's stream breaks and is resumed.
  int duplicate = 0;  // A Ready is said twice.
  int poison = 0;     // A gradient is refused as bad.
  int leave = 0;      // A worker leaves for good (not the last one).
  int join = 0;       // A worker that the job did not count on joins.
  int kill_evaluator = 0;
  // Chances per thousand of what is to be written: it cannot be, or it takes
  // longer than anybody waits.
  int disk_refuses = 0;
  int disk_hangs = 0;
  int pause = 0;  // Of a tick: the coordinator has stood still, for long.
};

// A cluster of workers, shards and an evaluator around a Coordinator, in an
// order drawn from the seed: messages are under way for any time and cross,
// shards execute at their own pace, and store what they are told to, if they
// can. InvariantChecker looks at every step; and nobody who lives may be
// declared dead.
//
// Two runs that are told the same draw the same.
//
// Not thread-safe: call from one thread.
class FakeCluster {
 public:
  FakeCluster(const CoordinatorOptions& options, const FakeFaults& faults,
              uint64_t seed);

  // Until the run is over or a rule is broken; not to be over after so many
  // steps breaks one. REQUIRES: called once, or once after RunUntil.
  void Run(int64_t max_steps);
  // Until `version` has been decided, if the run comes so far.
  void RunUntil(Version version, int64_t max_steps);
  TrainingSnapshot TakeSnapshot() const {
    return coordinator_.TakeSnapshot(now_);
  }

  // The first rule that was broken, with seed and step; empty if none was.
  std::string Violation() const;
  const std::optional<FinishRun>& finished() const { return finished_; }
  const InvariantChecker& checker() const { return checker_; }
  JobState State() const { return coordinator_.State(now_); }
  // Gradients that were refused because their task had ended, and workers'
  // deaths: so that tests can see there were some.
  int64_t late_deliveries() const { return late_; }
  int64_t kills() const { return kills_; }
  int64_t pauses() const { return pauses_; }

 private:
  struct Worker {
    int64_t id = 0;
    bool up = false;
    bool connected = false;
    bool gone = false;  // Left for good.
    Incarnation incarnation;
    std::deque<Action> inbox;  // From the coordinator.
    std::deque<std::variant<Delivery, GradientKey>> outbox;
    std::optional<Task> task;
    std::vector<Version> bases;  // Once pulled.
  };
  struct Shard {
    std::deque<Decision> inbox;
    int64_t executed = 0;
    int64_t acknowledged = 0;
    Version version;
    // What it writes of a checkpoint, until when; and what it has to say of
    // those before.
    std::optional<std::pair<Version, absl::Time>> writing;
    std::deque<std::pair<Version, StoredPart>> stored;
  };

  uint64_t Draw(uint64_t below);
  bool Chance(int per_thousand);

  void JoinShards();
  void Step();
  void StepWorker(Worker& worker);
  void StepShard(int64_t s);
  void Execute(int64_t s);
  void BeginWriting(int64_t s, Version version);
  void ReportStored(int64_t s);
  void StepManifests();
  void StepEvaluator();
  void StepTime();
  bool InjectFault(Worker& worker);
  void JoinWorker(Worker& worker, bool resume);
  void KillWorker(Worker& worker);
  void Receive(Worker& worker);
  void Send(Worker& worker);
  void Compute(Worker& worker);
  void Take(const Actions& actions);
  void Deliver(const Action& action);
  // Of those who live: not one may be.
  void CheckDeath(const EndSession& end);

  const CoordinatorOptions options_;
  const FakeFaults faults_;
  const uint64_t seed_;
  const BatchGrid grid_;
  const Random random_;
  uint64_t draws_ = 0;

  absl::Time now_ = absl::UnixEpoch();
  Coordinator coordinator_;
  InvariantChecker checker_;
  std::vector<Worker> workers_;
  std::vector<Shard> shards_;
  bool evaluator_up_ = false;
  Incarnation evaluator_incarnation_;
  std::optional<SendEvaluate> evaluate_;
  std::deque<Version> manifests_;  // To be written, in this order.
  std::optional<FinishRun> finished_;
  int64_t steps_ = 0;
  int64_t late_ = 0;
  int64_t kills_ = 0;
  int64_t pauses_ = 0;
  std::string violation_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_TESTING_FAKE_CLUSTER_H_
