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
#include "common/delay_model.h"
#include "ps_server/coordinator/coordinator.h"
#include "sim/event_queue.h"
#include "sim/network.h"
#include "sim/simulation_window.h"
#include "sim/workload.h"

namespace sluice {

// A cluster in virtual time: the production coordinator, with workers that
// take as long as the job's delays say, shards that apply at once, a network,
// and an evaluator that takes no time. Without a workload only times are
// simulated, and there is no evaluator.
//
//   task -> pull from every shard -> compute -> push to every shard -> ready
//
// One seed gives one run. Not thread-safe: call from one thread.
class ClusterSimulation {
 public:
  struct Options {
    // Its lease and deadlines do not run: nobody dies here.
    CoordinatorOptions coordinator;
    ComputeDelay compute;
    Network network;
    std::vector<int64_t> pull_bytes;  // Of a slice on the wire, by shard.
    std::vector<int64_t> push_bytes;
    Workload* workload = nullptr;  // Must outlive the simulation.
    // Sees what the coordinator has decided before it is carried out. An error
    // ends the simulation.
    std::function<absl::Status(const ClusterSimulation&, const Actions&)>
        observer;
    // Sees each evaluation; true: the run has reached its aim and ends.
    std::function<bool(const Evaluation&, VirtualTime now)> reached;
  };
  explicit ClusterSimulation(Options options);

  // Goes on until the run is over or `enough` (asked after each update) says
  // so. kInternal: the cluster stands still, and for whom; or the run failed.
  absl::Status Run(const std::function<bool()>& enough);

  // Forgets what was seen so far.
  void BeginWindow();
  const SimulationWindow& window() const { return window_; }
  // Gradients that were computed and have their verdict, from the start.
  int64_t decided() const { return decided_; }
  VirtualTime now() const { return queue_.now(); }
  bool finished() const { return finished_; }
  JobState State() const { return coordinator_.State(Now()); }
  absl::Time Now() const {
    return absl::UnixEpoch() + absl::Nanoseconds(queue_.now());
  }

 private:
  enum class Kind : uint8_t {
    kTask,    // Arrives at the worker.
    kCancel,  // The same.
    kPull,    // Arrives at the shard.
    kSlice,   // Of the weights, arrives at the worker.
    kComputed,
    kStaged,    // A shard's answer arrives at the worker.
    kReady,     // Arrives at the coordinator.
    kDecision,  // Arrives at the shard.
    kExecuted,  // A shard's acknowledgement arrives at the coordinator.
  };
  struct Event {
    Kind kind;
    int32_t shard;
    int64_t worker;
    int64_t number;  // Of the task's sequence, or of the decision.
  };
  struct Worker {
    absl::InlinedVector<Task, 1> tasks;  // Under way to it.
    Task task;
    int64_t live = 0;   // The sequence of its task; 0: none.
    int64_t ended = 0;  // The last that the coordinator has ended.
    std::vector<Version> bases;
    int missing = 0;  // Shards it waits for.
    VirtualTime began = 0;
    bool computing = false;
    double spent = 0;  // On its last gradient.
    // Gradients without a verdict, and what computing them took.
    std::vector<std::pair<int64_t, double>> undecided;
    VirtualTime inbox = 0;  // When the last message to it arrives.
  };
  struct Shard {
    Version version;
    std::vector<Event> parked;  // Pulls of a version that is still to come.
    VirtualTime inbox = 0;
  };

  // A message's time under way, behind all that went to the same inbox.
  VirtualTime InOrder(VirtualTime* inbox);

  absl::Status Join();
  absl::Status Handle(const Event& event);
  void BeginTask(Worker& worker);
  void Cancel(Worker& worker, int64_t sequence);
  void Pull(const Event& event);
  void Compute(const Event& event);
  void Push(const Event& event);
  absl::Status Ready(const Event& event);
  absl::Status Execute(const Event& event);
  absl::Status Executed(const Event& event);
  bool EvaluationDue() const;
  absl::Status Evaluate();
  // The worker has no task any more.
  void EndTask(Worker& worker);

  // Carries out what the coordinator has decided.
  void Take();
  void SendToWorker(const Task& task);
  void SendCancel(const GradientKey& key);
  void Count(const RecordCommit& commit);
  void Count(const RecordEnd& end);
  // What computing the gradient took; 0 when it was not computed to its end.
  double Decided(const GradientKey& key);

  // Constant after construction.
  const CoordinatorOptions options_;
  const ComputeDelay compute_;
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
  // Decisions that not every shard has executed, from `first_decision_` on,
  // with the version each makes.
  struct Numbered {
    Decision decision;
    Version version;
    int executed = 0;  // By how many shards.
  };
  std::deque<Numbered> decisions_;
  int64_t first_decision_ = 1;
  Actions actions_;  // Kept to save allocations.

  std::optional<SendEvaluate> evaluating_;

  SimulationWindow window_;
  int64_t decided_ = 0;
  bool updated_ = false;
  bool finished_ = false;
  std::string failure_;
};

}  // namespace sluice

#endif  // SLUICE_SIM_CLUSTER_SIMULATION_H_
