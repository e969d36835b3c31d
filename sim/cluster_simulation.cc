// A discrete-event loop. An event is a message that arrives or a computation
// that ends. Handle() updates the worker or shard it concerns and adds the
// events that follow from it.
//
// The life of one gradient, with a latency of 1 ms and a compute time of 30 ms:
//
//    0 ms             the coordinator gives the worker a task
//    1 ms  kTask      at the worker, which sends a pull to every shard
//    2 ms  kPull      at the shard; parked if the version is not there yet
//    3 ms  kSlice     the last one at the worker, which begins to compute
//   33 ms  kComputed  the worker pushes its gradient to every shard
//   35 ms  kStaged    the answer of the last shard at the worker
//   36 ms  kReady     at the coordinator, which commits or waits for others
//
// Where gradients have turns (SYNC with little room on the shards), a kPush
// comes before the answer. It waits on the shard until its turn is among the
// next that the shard has room for.
//
// If there is one shard, Ready travels with the gradient: it is at the
// coordinator, in the same process, at 34 ms.
//
// Invariants:
//   - A worker works on at most one task, `live`. An event that carries another
//     sequence belongs to a task that has ended, and is ignored.
//   - Messages from the coordinator to one process arrive in the order in which
//     they were sent (InOrder), as on a session.
//   - actions_ is empty between events: each call of the coordinator is
//     followed by Take().
//   - decisions_[i] has the number first_decision_ + i.
//   - The workload computes a gradient only when its Ready arrives and the task
//     has not ended. A task that is cancelled costs virtual time and no real
//     time.
#include "sim/cluster_simulation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

constexpr double kSecond = 1e9;  // In nanoseconds.

double Seconds(VirtualTime time) { return static_cast<double>(time) / kSecond; }

// The version after `decision` is executed, if `before` was the version before
// it.
Version VersionAfter(const Decision& decision, Version before) {
  if (const auto* commit = std::get_if<Commit>(&decision.what)) {
    return commit->version;
  }
  if (const auto* restore = std::get_if<Restore>(&decision.what)) {
    return restore->version;
  }
  return before;
}

// Leases never end, since nobody is heard of here. A tick is that of the
// daemons or a thousandth of the deadline, whichever is longer: so there are
// few ticks to a task, however long the job's tasks take.
CoordinatorOptions WithTicks(CoordinatorOptions options) {
  proto::Job& job = options.job;
  job.mutable_limits()->set_lease_s(std::numeric_limits<double>::infinity());
  double deadline = job.limits().task_deadline_s();
  if (job.stop().has_seconds()) {
    deadline = std::min(deadline, job.stop().seconds());
  }
  options.tick = std::max(options.tick, absl::Seconds(deadline / 1000));
  return options;
}

}  // namespace

// The staleness of a gradient is the number of updates between its base and its
// update: in the update that makes version 9, a gradient with the bases 8 and 6
// (one per shard) counts as 9 - 1 - 6 = 2.
void SimulationWindow::Committed(const RecordCommit& commit, VirtualTime now) {
  commits.push_back(now);
  for (const RecordCommit::Entry& entry : commit.entries) {
    ++gradients.applied;
    const Version base =
        *std::min_element(entry.shard_bases.begin(), entry.shard_bases.end());
    const int64_t staleness = commit.version - 1 - base;
    staleness_sum += staleness;
    if (staleness >= static_cast<int64_t>(staleness_histogram.size())) {
      staleness_histogram.resize(staleness + 1);
    }
    ++staleness_histogram[staleness];
  }
}

void SimulationWindow::Ended(Outcome outcome) {
  switch (outcome) {
    case Outcome::kCancelled:
      ++gradients.cancelled;
      break;
    case Outcome::kDropped:
      ++gradients.dropped;
      break;
    case Outcome::kRejected:
      ++gradients.rejected;
      break;
    case Outcome::kLost:
      ++gradients.lost;
      break;
    case Outcome::kApplied:
      break;  // Counted with its update.
  }
}

ClusterSimulation::ClusterSimulation(Options options)
    : options_(WithTicks(options.coordinator)),
      tick_(VirtualSeconds(absl::ToDoubleSeconds(options_.tick))),
      compute_(std::move(options.compute)),
      pipeline_(std::move(options.pipeline)),
      groups_(GroupsOf(options_.job), GroupSchedule(&pipeline_)),
      base_shards_(std::move(options.base_shards)),
      pull_bytes_(std::move(options.pull_bytes)),
      push_bytes_(std::move(options.push_bytes)),
      grid_(JobGrid(options_.job, options_.train_samples)),
      workload_(options.workload),
      observer_(std::move(options.observer)),
      reached_(std::move(options.reached)),
      network_(std::move(options.network)),
      coordinator_(options_, absl::UnixEpoch()),
      workers_(options_.job.cluster().workers()),
      shards_(options_.job.cluster().shards()) {
  SLUICE_CHECK(static_cast<int>(pull_bytes_.size()) == shards());
  SLUICE_CHECK(static_cast<int>(push_bytes_.size()) == shards());
  SLUICE_CHECK(workload_ != nullptr || !options_.job.evaluation().enabled());
  for (Worker& worker : workers_) worker.bases.resize(shards());
  BeginWindow();
}

void ClusterSimulation::BeginWindow() {
  window_ = SimulationWindow();
  window_.begin = window_.end = queue_.now();
  window_.pull_bytes.resize(shards());
  window_.push_bytes.resize(shards());
  window_.worker_seconds.resize(options_.job.cluster().workers());
}

absl::Status ClusterSimulation::Run(const std::function<bool()>& enough) {
  if (queue_.now() == 0 && queue_.empty()) SLUICE_RETURN_IF_ERROR(Join());
  while (!finished_) {
    if (queue_.empty()) {
      return absl::InternalError(
          absl::StrCat("the cluster stands still: ", State().waiting_for));
    }
    const Event next = queue_.Take();
    if (next.kind != Kind::kTick) ++window_.events;
    if (queue_.now() >= kEndOfTime) {
      return absl::OutOfRangeError(absl::StrCat(
          "the simulation reaches the end of virtual time, 146 years, after "
          "update ",
          State().version.value(),
          ": are the job's delays as they should be?"));
    }
    SLUICE_RETURN_IF_ERROR(Handle(next));
    while (EvaluationDue()) SLUICE_RETURN_IF_ERROR(Evaluate());
    if (std::exchange(updated_, false) && enough()) break;
  }
  if (finished_) EndComputing();
  window_.end = queue_.now();
  if (!failure_.empty()) return absl::InternalError(failure_);
  return absl::OkStatus();
}

absl::Status ClusterSimulation::Join() {
  queue_.Add(tick_, {Kind::kTick, 0, 0, 0});
  Coordinator::JoinRequest request;
  for (int64_t s = 0; s < shards(); ++s) {
    request.peer = {Role::kShard, s};
    SLUICE_RETURN_IF_ERROR(
        coordinator_.Join(request, Now(), &actions_).status());
    Take();
  }
  for (int64_t w = 0; w < options_.job.cluster().workers(); ++w) {
    request.peer = {Role::kWorker, w};
    SLUICE_RETURN_IF_ERROR(
        coordinator_.Join(request, Now(), &actions_).status());
    Take();
  }
  if (!options_.job.evaluation().enabled()) return absl::OkStatus();
  request.peer = {Role::kEvaluator, 0};
  SLUICE_RETURN_IF_ERROR(coordinator_.Join(request, Now(), &actions_).status());
  Take();
  return absl::OkStatus();
}

absl::Status ClusterSimulation::Handle(const Event& event) {
  switch (event.kind) {
    case Kind::kTask:
      BeginTask(workers_[event.worker]);
      return absl::OkStatus();
    case Kind::kCancel:
      Cancel(workers_[event.worker], event.number);
      return absl::OkStatus();
    case Kind::kPull:
      Pull(event);
      return absl::OkStatus();
    case Kind::kSlice:
      Compute(event);
      return absl::OkStatus();
    case Kind::kComputed:
      Push(event);
      return absl::OkStatus();
    case Kind::kPush:
      Stage(event);
      return absl::OkStatus();
    case Kind::kStaged: {
      Worker& worker = workers_[event.worker];
      if (worker.live != event.number || --worker.missing > 0) break;
      queue_.Add(network_.Latency(WorkerId(event.worker)),
                 {Kind::kReady, 0, event.worker, event.number});
      return absl::OkStatus();
    }
    case Kind::kReady:
      return Ready(event);
    case Kind::kDecision:
      return Execute(event);
    case Kind::kExecuted:
      return Executed(event);
    case Kind::kTick:
      Tick();
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

VirtualTime ClusterSimulation::InOrder(VirtualTime* inbox,
                                       VirtualTime latency) {
  *inbox = std::max(*inbox, Later(queue_.now(), latency));
  return *inbox - queue_.now();
}

// ---- The worker ----

void ClusterSimulation::BeginTask(Worker& worker) {
  worker.task = std::move(worker.tasks.front());
  worker.tasks.erase(worker.tasks.begin());
  const GradientKey& key = worker.task.key;
  worker.live = key.sequence.value();
  worker.missing = shards();
  for (int s = 0; s < shards(); ++s) {
    queue_.Add(network_.Latency(key.worker),
               {Kind::kPull, s, key.worker.value(), worker.live});
  }
}

void ClusterSimulation::Cancel(Worker& worker, int64_t sequence) {
  if (worker.live != sequence) return;
  if (worker.computing) {
    WasteComputing(worker);
    const WorkerId id = worker.task.key.worker;
    ScheduleOf(id).Cancel(SlotOf(options_.job, id), Seconds(queue_.now()));
  }
  EndTask(worker);
}

void ClusterSimulation::WasteComputing(Worker& worker) {
  const double spent = Seconds(queue_.now() - worker.began);
  window_.Spent(worker.task.key.worker, spent);
  window_.wasted_seconds += spent;
  worker.computing = false;
}

// Every task has ended, and no Cancel arrives any more.
void ClusterSimulation::EndComputing() {
  for (Worker& worker : workers_) {
    if (worker.computing) WasteComputing(worker);
  }
}

void ClusterSimulation::EndTask(Worker& worker) {
  worker.live = 0;
  if (workload_ != nullptr) workload_->Ended(worker.task.key.worker);
}

void ClusterSimulation::Compute(const Event& event) {
  Worker& worker = workers_[event.worker];
  if (worker.live != event.number || --worker.missing > 0) return;
  worker.began = queue_.now();
  worker.computing = true;
  const int batches = worker.task.batches;
  const double whole = compute_.Draw(event.worker, event.number, batches);
  const WorkerId id(event.worker);
  const double seconds = ScheduleOf(id).Begin(
      SlotOf(options_.job, id), Seconds(queue_.now()), whole, batches);
  queue_.Add(VirtualSeconds(seconds),
             {Kind::kComputed, 0, event.worker, event.number});
}

void ClusterSimulation::Push(const Event& event) {
  Worker& worker = workers_[event.worker];
  if (worker.live != event.number) return;
  const double spent = Seconds(queue_.now() - worker.began);
  worker.computing = false;
  window_.Spent(WorkerId(event.worker), spent);
  worker.spent = spent;
  if (worker.ended >= event.number) {
    // It has its verdict, but the Cancel is still on its way.
    window_.wasted_seconds += spent;
    ++decided_;
  } else {
    worker.undecided.emplace_back(event.number, spent);
  }
  worker.missing = shards();
  for (int s = 0; s < shards(); ++s) {
    window_.push_bytes[s] += push_bytes_[s];
    const VirtualTime there = network_.ToShard(
        queue_.now(), WorkerId(event.worker), ShardId(s), push_bytes_[s]);
    const Event push = {Kind::kPush, s, event.worker, event.number};
    if (worker.task.turn.has_value()) {
      queue_.Add(there, push);
    } else {
      AnswerPush(push, there);
    }
  }
}

// ---- The shard ----

void ClusterSimulation::Stage(const Event& event) {
  const Worker& worker = workers_[event.worker];
  if (worker.live != event.number) return;
  Shard& shard = shards_[event.shard];
  const int room = options_.job.limits().staged_gradients();
  if (*worker.task.turn < shard.folded + room) {
    AnswerPush(event, 0);
  } else {
    shard.early.push_back(event);
  }
}

void ClusterSimulation::AnswerPush(const Event& event, VirtualTime there) {
  if (ready_travels()) {
    queue_.Add(there, {Kind::kReady, 0, event.worker, event.number});
  } else {
    queue_.Add(Later(there, network_.Latency(WorkerId(event.worker))),
               {Kind::kStaged, event.shard, event.worker, event.number});
  }
}

void ClusterSimulation::Pull(const Event& event) {
  Worker& worker = workers_[event.worker];
  if (worker.live != event.number) return;
  Shard& shard = shards_[event.shard];
  if (shard.version < worker.task.version) {
    shard.parked.push_back(event);
    return;
  }
  // The version is gone, so the task's Cancel is on its way.
  if (worker.task.exact && shard.version > worker.task.version) return;
  worker.bases[event.shard] = shard.version;
  const ShardId id(event.shard);
  if (workload_ != nullptr) workload_->Pulled(WorkerId(event.worker), id);
  window_.pull_bytes[event.shard] += pull_bytes_[event.shard];
  queue_.Add(network_.ToWorker(queue_.now(), id, WorkerId(event.worker),
                               pull_bytes_[event.shard]),
             {Kind::kSlice, event.shard, event.worker, event.number});
}

absl::Status ClusterSimulation::Execute(const Event& event) {
  Shard& shard = shards_[event.shard];
  const Numbered& numbered = decisions_[event.number - first_decision_];
  if (workload_ != nullptr) {
    const ShardId id(event.shard);
    SLUICE_ASSIGN_OR_RETURN(std::vector<uint64_t> digests,
                            workload_->Execute(id, numbered.decision));
    if (!digests.empty()) {
      actions_.push_back(
          RecordDigests{id, numbered.version, std::move(digests)});
      Take();
    }
  }
  shard.version = numbered.version;
  if (const auto* fold = std::get_if<Fold>(&numbered.decision.what)) {
    shard.folded += static_cast<int64_t>(fold->entries.size());
    for (const Event& push : std::exchange(shard.early, {})) Stage(push);
  } else if (std::holds_alternative<Commit>(numbered.decision.what)) {
    shard.folded = 0;
  }
  for (const Event& pull : std::exchange(shard.parked, {})) Pull(pull);
  queue_.Add(network_.Latency(ShardId(event.shard)),
             {Kind::kExecuted, event.shard, 0, event.number});
  return absl::OkStatus();
}

// ---- The coordinator ----

absl::Status ClusterSimulation::Ready(const Event& event) {
  Worker& worker = workers_[event.worker];
  if (worker.live != event.number) return absl::OkStatus();
  const Task& task = worker.task;
  // The task was cancelled while the message was on its way.
  if (worker.ended >= event.number) {
    EndTask(worker);
    return absl::OkStatus();
  }
  Delivery delivery;
  delivery.key = task.key;
  delivery.shard_bases = worker.bases;
  if (!base_shards_.empty()) {
    delivery.shard_bases.clear();
    for (const int shard : base_shards_) {
      delivery.shard_bases.push_back(worker.bases[shard]);
    }
  }
  if (observer_ != nullptr) delivery.compute_seconds = worker.spent;
  std::string rejected;
  if (workload_ != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(Workload::Computed computed,
                            workload_->Compute(task));
    delivery.samples = computed.samples;
    delivery.loss = computed.loss;
    rejected = std::move(computed.rejected);
  } else {
    for (int b = 0; b < task.batches; ++b) {
      delivery.samples += grid_.SliceOf(task.first_batch + b).samples;
    }
  }
  EndTask(worker);
  const absl::Status status =
      rejected.empty()
          ? coordinator_.Ready(delivery, Now(), &actions_)
          : coordinator_.Rejected(delivery.key, rejected, Now(), &actions_);
  Take();
  return status;
}

absl::Status ClusterSimulation::Executed(const Event& event) {
  Numbered& numbered = decisions_[event.number - first_decision_];
  const Version version = numbered.version;
  ++numbered.executed;
  while (!decisions_.empty() && decisions_.front().executed == shards()) {
    decisions_.pop_front();
    ++first_decision_;
  }
  const absl::Status status = coordinator_.Executed(
      ShardId(event.shard), event.number, version, "", Now(), &actions_);
  Take();
  return status;
}

void ClusterSimulation::Tick() {
  coordinator_.Tick(Now(), &actions_);
  Take();
  // Otherwise the cluster stands still, and another tick would hide that.
  if (!queue_.empty()) queue_.Add(tick_, {Kind::kTick, 0, 0, 0});
}

// ---- The evaluator ----

bool ClusterSimulation::EvaluationDue() const {
  return evaluating_.has_value() && !finished_ &&
         std::all_of(shards_.begin(), shards_.end(), [this](const Shard& s) {
           return s.version >= evaluating_->version;
         });
}

absl::Status ClusterSimulation::Evaluate() {
  const SendEvaluate request = *std::exchange(evaluating_, std::nullopt);
  SLUICE_ASSIGN_OR_RETURN(const Evaluation evaluation,
                          workload_->Evaluate(request));
  coordinator_.Evaluated(evaluation, Now(), &actions_);
  Take();
  if (reached_ != nullptr && reached_(evaluation, queue_.now())) {
    coordinator_.RequestStop("the target is reached", Now(), &actions_);
    Take();
  }
  return absl::OkStatus();
}

// ---- What follows ----

void ClusterSimulation::Take() {
  if (observer_ != nullptr) {
    const absl::Status seen = observer_(*this, actions_);
    if (!seen.ok() && failure_.empty()) {
      failure_ = std::string(seen.message());
      finished_ = true;
    }
  }
  for (const Action& action : actions_) {
    if (const auto* send = std::get_if<struct SendTask>(&action)) {
      SendToWorker(send->task);
    } else if (const auto* cancel = std::get_if<sluice::SendCancel>(&action)) {
      SendCancel(cancel->key);
    } else if (const auto* decision = std::get_if<SendDecision>(&action)) {
      const Version before =
          decisions_.empty() ? shards_[0].version : decisions_.back().version;
      decisions_.push_back(
          {decision->decision, VersionAfter(decision->decision, before)});
      for (int s = 0; s < shards(); ++s) {
        queue_.Add(InOrder(&shards_[s].inbox, network_.Latency(ShardId(s))),
                   {Kind::kDecision, s, 0, decision->decision.number});
      }
    } else if (const auto* commit = std::get_if<RecordCommit>(&action)) {
      Count(*commit);
    } else if (const auto* end = std::get_if<RecordEnd>(&action)) {
      Count(*end);
    } else if (const auto* evaluate = std::get_if<SendEvaluate>(&action)) {
      evaluating_ = *evaluate;
    } else if (const auto* finish = std::get_if<FinishRun>(&action)) {
      finished_ = true;
      if (failure_.empty()) failure_ = finish->failure;
    }
  }
  actions_.clear();
}

void ClusterSimulation::SendToWorker(const Task& task) {
  ++window_.started;
  Worker& worker = workers_[task.key.worker.value()];
  worker.tasks.push_back(task);
  queue_.Add(
      InOrder(&worker.inbox, network_.Latency(task.key.worker)),
      {Kind::kTask, 0, task.key.worker.value(), task.key.sequence.value()});
}

void ClusterSimulation::SendCancel(const GradientKey& key) {
  Worker& worker = workers_[key.worker.value()];
  queue_.Add(InOrder(&worker.inbox, network_.Latency(key.worker)),
             {Kind::kCancel, 0, key.worker.value(), key.sequence.value()});
}

double ClusterSimulation::Decided(const GradientKey& key) {
  auto& undecided = workers_[key.worker.value()].undecided;
  const auto found = std::find_if(
      undecided.begin(), undecided.end(),
      [&](const auto& entry) { return entry.first == key.sequence.value(); });
  if (found == undecided.end()) return 0;
  const double spent = found->second;
  undecided.erase(found);
  ++decided_;
  return spent;
}

void ClusterSimulation::Count(const RecordCommit& commit) {
  updated_ = true;
  for (const RecordCommit::Entry& entry : commit.entries) Decided(entry.key);
  window_.Committed(commit, queue_.now());
}

void ClusterSimulation::Count(const RecordEnd& end) {
  // A gradient that was computed and ends unapplied wasted its whole compute
  // time. One that is still being computed is counted when its Cancel arrives
  // or it is done, whichever comes first.
  window_.wasted_seconds += Decided(end.key);
  window_.Ended(end.outcome);
  int64_t& ended = workers_[end.key.worker.value()].ended;
  ended = std::max(ended, end.key.sequence.value());
}

}  // namespace sluice
