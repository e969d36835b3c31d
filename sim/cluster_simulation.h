#ifndef SLUICE_SIM_CLUSTER_SIMULATION_H_
#define SLUICE_SIM_CLUSTER_SIMULATION_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "common/batch_grid.h"
#include "common/job/delay_model.h"
#include "common/job/group.h"
#include "ps_server/coordinator/core/coordinator.h"
#include "ps_server/coordinator/core/job_state.h"
#include "ps_server/coordinator/policy/batch_schedule.h"
#include "ps_server/decisions/events.h"
#include "sim/event_queue.h"
#include "sim/network.h"
#include "sim/theory/pipeline_time.h"
#include "sim/workload.h"

namespace sluice {

// Measurements of a simulated cluster from one moment on.
struct SimulationWindow {
  VirtualTime begin = 0;
  VirtualTime end = 0;
  int64_t events = 0;
  std::vector<VirtualTime> commits;  // When each update was decided.
  int64_t started = 0;               // Tasks.
  GradientCounts gradients;
  int64_t staleness_sum = 0;                 // Over applied gradients.
  std::vector<int64_t> staleness_histogram;  // Applied gradients by staleness.
  // Totals over all workers. Wasted: time for tasks that ended without being
  // applied.
  double compute_seconds = 0;
  double wasted_seconds = 0;
  std::vector<double> worker_seconds;  // compute_seconds of each worker.
  std::vector<int64_t> pull_bytes, push_bytes;  // By shard.

  // Records that an update was decided.
  void Committed(const RecordCommit& commit, VirtualTime now);
  // Records compute time of a worker.
  void Spent(WorkerId worker, double seconds) {
    compute_seconds += seconds;
    worker_seconds[worker.value()] += seconds;
  }
  // Records that a task ended without being applied.
  void Ended(Outcome outcome);
};

// A cluster in virtual time: the production coordinator, workers that take as
// long as the job's delays say (a group of processes: as long as its stages do,
// which share that, and its slots share these), shards that execute at once, a
// network, and an evaluator that takes no time. Without a workload only times
// are simulated, and there is no evaluator.
//
//   task -> pull from every shard -> compute -> push to every shard -> ready
//
// The same seed gives the same run. Not thread-safe: call from one thread.
class ClusterSimulation {
 public:
  struct Options {
    // Leases are not simulated, because no process dies here. `tick` is chosen
    // from the job's deadlines.
    CoordinatorOptions coordinator;
    ComputeDelay compute;  // Of a worker of one process.
    PipelineTime pipeline;
    // The shard of each base that a gradient has; empty: one for each shard.
    std::vector<int> base_shards;
    Network network;
    std::vector<int64_t> pull_bytes;  // Bytes of a slice on the wire, by shard.
    std::vector<int64_t> push_bytes;
    Workload* workload = nullptr;  // Must outlive the simulation.
    // Called with the coordinator's decisions before they are carried out. An
    // error ends the simulation.
    std::function<absl::Status(const ClusterSimulation&, const Actions&)>
        observer;
    // Called with each evaluation. If it returns true, the target is reached
    // and the run ends.
    std::function<bool(const Evaluation&, VirtualTime now)> reached;
  };
  explicit ClusterSimulation(Options options);

  // Runs until the run is over or `enough` (called after each update) returns
  // true. kInternal: the cluster stands still (the message says whom it waits
  // for), or the run failed. kOutOfRange: virtual time has come to its end.
  absl::Status Run(const std::function<bool()>& enough);

  // Starts a new window of measurements.
  void BeginWindow();
  const SimulationWindow& window() const { return window_; }
  // Computed gradients that have their verdict, since the start.
  int64_t decided() const { return decided_; }
  VirtualTime now() const { return queue_.now(); }
  JobState State() const { return coordinator_.State(Now()); }
  absl::Time Now() const {
    return absl::UnixEpoch() + absl::Nanoseconds(queue_.now());
  }

 private:
  enum class Kind : uint8_t {
    kTask,    // A task arrives at the worker.
    kCancel,  // A cancellation arrives at the worker.
    kPull,    // A pull arrives at the shard.
    kSlice,   // A slice of the weights arrives at the worker.
    kComputed,
    kPush,      // A gradient that has a turn arrives at the shard.
    kStaged,    // A shard's answer arrives at the worker.
    kReady,     // Arrives at the coordinator.
    kDecision,  // Arrives at the shard.
    kExecuted,  // A shard's acknowledgement arrives at the coordinator.
    kTick,      // The coordinator looks at its deadlines.
  };
  struct Event {
    Kind kind;
    int32_t shard;
    int64_t worker;
    int64_t number;  // The task's sequence, or the decision's number.
  };
  struct Worker {
    // Tasks that are still on their way to it.
    absl::InlinedVector<Task, 1> tasks;
    Task task;
    int64_t live = 0;   // The sequence of the task it works on; 0: none.
    int64_t ended = 0;  // The newest task that the coordinator has ended.
    std::vector<Version> bases;
    int missing = 0;  // Shards that have not answered yet.
    VirtualTime began = 0;
    bool computing = false;
    double spent = 0;  // Compute time of its last gradient.
    // Gradients without a verdict, with the compute time of each.
    std::vector<std::pair<int64_t, double>> undecided;
    VirtualTime inbox = 0;  // When the last message sent to it arrives.
  };
  struct Shard {
    Version version;
    std::vector<Event> parked;  // Pulls of a version that is not there yet.
    int64_t folded = 0;         // Gradients of the next version.
    std::vector<Event> early;   // Gradients whose turn is to come.
    VirtualTime inbox = 0;
  };

  GroupSchedule& ScheduleOf(WorkerId worker) {
    return groups_[GroupOf(options_.job, worker)];
  }
  // When a message arrives that takes `latency`, and must not overtake earlier
  // ones to the same inbox.
  VirtualTime InOrder(VirtualTime* inbox, VirtualTime latency);

  absl::Status Join();
  absl::Status Handle(const Event& event);
  void BeginTask(Worker& worker);
  void Cancel(Worker& worker, int64_t sequence);
  // Counts what the worker has computed of a task that is not to be applied.
  void WasteComputing(Worker& worker);
  // The run is over: counts what workers have computed until now.
  void EndComputing();
  void Pull(const Event& event);
  void Compute(const Event& event);
  void Push(const Event& event);
  void Stage(const Event& event);
  // The shard has a gradient at `there`.
  void AnswerPush(const Event& event, VirtualTime there);
  absl::Status Ready(const Event& event);
  absl::Status Execute(const Event& event);
  absl::Status Executed(const Event& event);
  void Tick();
  bool EvaluationDue() const;
  absl::Status Evaluate();
  // Ends the worker's task.
  void EndTask(Worker& worker);

  // Carries out the coordinator's actions.
  void Take();
  void SendToWorker(const Task& task);
  void SendCancel(const GradientKey& key);
  void Count(const RecordCommit& commit);
  void Count(const RecordEnd& end);
  // Records that a gradient has its verdict. Returns its compute time; 0 if the
  // gradient was not fully computed.
  double Decided(const GradientKey& key);

  int shards() const { return options_.job.cluster().shards(); }
  // With the gradient, as of a worker of one process to one shard.
  bool ready_travels() const {
    return shards() == 1 && base_shards_.size() <= 1;
  }

  // Constant after construction.
  const CoordinatorOptions options_;
  const VirtualTime tick_;
  const ComputeDelay compute_;
  const PipelineTime pipeline_;
  std::vector<GroupSchedule> groups_;
  const std::vector<int> base_shards_;
  const std::vector<int64_t> pull_bytes_;
  const std::vector<int64_t> push_bytes_;
  const BatchGrid grid_;
  Workload* const workload_;
  const decltype(Options::observer) observer_;
  const decltype(Options::reached) reached_;

  Network network_;
  EventQueue<Event> queue_;
  Coordinator coordinator_;
  std::vector<Worker> workers_;
  std::vector<Shard> shards_;
  // Decisions that some shard has not executed yet, with the version each
  // makes. The first has the number `first_decision_`.
  struct Numbered {
    Decision decision;
    Version version;
    int executed = 0;  // Number of shards that have executed it.
  };
  std::deque<Numbered> decisions_;
  int64_t first_decision_ = 1;
  Actions actions_;  // A member only to reuse its memory.

  std::optional<SendEvaluate> evaluating_;

  SimulationWindow window_;
  int64_t decided_ = 0;
  bool updated_ = false;
  bool finished_ = false;
  std::string failure_;
};

}  // namespace sluice

#endif  // SLUICE_SIM_CLUSTER_SIMULATION_H_
