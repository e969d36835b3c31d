#include "sim/cluster_simulation.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

constexpr double kSecond = 1e9;  // In nanoseconds.

double Seconds(VirtualTime time) { return static_cast<double>(time) / kSecond; }

// Version that stands once `decision` is executed, after `before`.
Version VersionAfter(const Decision& decision, Version before) {
  if (const auto* commit = std::get_if<Commit>(&decision.what)) {
    return commit->version;
  }
  if (const auto* restore = std::get_if<Restore>(&decision.what)) {
    return restore->version;
  }
  return before;
}

}  // namespace

ClusterSimulation::ClusterSimulation(Options options)
    : options_(options.coordinator),
      compute_(std::move(options.compute)),
      slice_bytes_(std::move(options.slice_bytes)),
      grid_(options_.train_samples, options_.batch_size,
            options_.static_partitions ? options_.workers : 1),
      workload_(options.workload),
      network_(std::move(options.network)),
      coordinator_(options_, absl::UnixEpoch()),
      workers_(options_.workers),
      shards_(options_.shards) {
  SLUICE_CHECK(static_cast<int>(slice_bytes_.size()) == options_.shards);
  SLUICE_CHECK(!options_.evaluator);
  for (Worker& worker : workers_) worker.bases.resize(options_.shards);
  BeginWindow();
}

void ClusterSimulation::BeginWindow() {
  window_ = SimulationWindow();
  window_.begin = window_.end = queue_.now();
  window_.pull_bytes.resize(options_.shards);
  window_.push_bytes.resize(options_.shards);
}

absl::Status ClusterSimulation::Run(const std::function<bool()>& enough) {
  if (queue_.now() == 0 && queue_.empty()) SLUICE_RETURN_IF_ERROR(Join());
  while (!finished_) {
    if (queue_.empty()) {
      return absl::InternalError(
          absl::StrCat("the cluster stands still: ", State().waiting_for));
    }
    ++window_.events;
    SLUICE_RETURN_IF_ERROR(Handle(queue_.Take()));
    if (std::exchange(updated_, false) && enough()) break;
  }
  window_.end = queue_.now();
  if (!failure_.empty()) return absl::InternalError(failure_);
  return absl::OkStatus();
}

absl::Status ClusterSimulation::Join() {
  Coordinator::JoinRequest request;
  for (int64_t s = 0; s < options_.shards; ++s) {
    request.peer = {Role::kShard, s};
    SLUICE_RETURN_IF_ERROR(
        coordinator_.Join(request, Now(), &actions_).status());
    Take();
  }
  for (int64_t w = 0; w < options_.workers; ++w) {
    request.peer = {Role::kWorker, w};
    SLUICE_RETURN_IF_ERROR(
        coordinator_.Join(request, Now(), &actions_).status());
    Take();
  }
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
    case Kind::kStaged: {
      Worker& worker = workers_[event.worker];
      if (worker.live != event.number || --worker.missing > 0) break;
      queue_.Add(network_.Latency(),
                 {Kind::kReady, 0, event.worker, event.number});
      return absl::OkStatus();
    }
    case Kind::kReady:
      return Ready(event);
    case Kind::kDecision:
      return Execute(event);
    case Kind::kExecuted:
      return Executed(event);
  }
  return absl::OkStatus();
}

VirtualTime ClusterSimulation::InOrder(VirtualTime* inbox) {
  *inbox = std::max(*inbox, queue_.now() + network_.Latency());
  return *inbox - queue_.now();
}

// ---- The worker ----

void ClusterSimulation::BeginTask(Worker& worker) {
  worker.task = std::move(worker.tasks.front());
  worker.tasks.pop_front();
  const GradientKey& key = worker.task.key;
  worker.live = key.sequence.value();
  worker.missing = options_.shards;
  for (int s = 0; s < options_.shards; ++s) {
    queue_.Add(network_.Latency(),
               {Kind::kPull, s, key.worker.value(), worker.live});
  }
}

void ClusterSimulation::Cancel(Worker& worker, int64_t sequence) {
  if (worker.live != sequence) return;
  if (worker.computing) {
    const double spent = Seconds(queue_.now() - worker.began);
    window_.compute_seconds += spent;
    window_.wasted_seconds += spent;
  }
  worker.live = 0;
  worker.computing = false;
}

void ClusterSimulation::Compute(const Event& event) {
  Worker& worker = workers_[event.worker];
  if (worker.live != event.number || --worker.missing > 0) return;
  worker.began = queue_.now();
  worker.computing = true;
  const double seconds =
      compute_.Draw(event.worker, event.number, worker.task.batches);
  queue_.Add(std::llround(seconds * kSecond),
             {Kind::kComputed, 0, event.worker, event.number});
}

void ClusterSimulation::Push(const Event& event) {
  Worker& worker = workers_[event.worker];
  if (worker.live != event.number) return;
  const double spent = Seconds(queue_.now() - worker.began);
  worker.computing = false;
  window_.compute_seconds += spent;
  worker.undecided.emplace_back(event.number, spent);
  worker.missing = options_.shards;
  for (int s = 0; s < options_.shards; ++s) {
    window_.push_bytes[s] += slice_bytes_[s];
    const VirtualTime there = network_.ToShard(
        queue_.now(), WorkerId(event.worker), ShardId(s), slice_bytes_[s]);
    queue_.Add(there + network_.Latency(),
               {Kind::kStaged, s, event.worker, event.number});
  }
}

// ---- The shard ----

void ClusterSimulation::Pull(const Event& event) {
  Worker& worker = workers_[event.worker];
  if (worker.live != event.number) return;
  Shard& shard = shards_[event.shard];
  if (shard.version < worker.task.version) {
    shard.parked.push_back(event);
    return;
  }
  // A version that is gone: the task's Cancel is on its way.
  if (worker.task.exact && shard.version > worker.task.version) return;
  worker.bases[event.shard] = shard.version;
  const ShardId id(event.shard);
  if (workload_ != nullptr) workload_->Pulled(WorkerId(event.worker), id);
  window_.pull_bytes[event.shard] += slice_bytes_[event.shard];
  queue_.Add(network_.ToWorker(queue_.now(), id, WorkerId(event.worker),
                               slice_bytes_[event.shard]),
             {Kind::kSlice, event.shard, event.worker, event.number});
}

absl::Status ClusterSimulation::Execute(const Event& event) {
  Shard& shard = shards_[event.shard];
  const Numbered& numbered = decisions_[event.number - first_decision_];
  if (workload_ != nullptr) {
    SLUICE_RETURN_IF_ERROR(
        workload_->Execute(ShardId(event.shard), numbered.decision));
  }
  shard.version = numbered.version;
  for (const Event& pull : std::exchange(shard.parked, {})) Pull(pull);
  queue_.Add(network_.Latency(),
             {Kind::kExecuted, event.shard, 0, event.number});
  return absl::OkStatus();
}

// ---- The coordinator ----

absl::Status ClusterSimulation::Ready(const Event& event) {
  Worker& worker = workers_[event.worker];
  if (worker.live != event.number) return absl::OkStatus();
  const Task& task = worker.task;
  Delivery delivery;
  delivery.key = task.key;
  delivery.shard_bases = worker.bases;
  if (workload_ != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(const Workload::Computed computed,
                            workload_->Compute(task));
    delivery.samples = computed.samples;
    delivery.loss = computed.loss;
  } else {
    for (int b = 0; b < task.batches; ++b) {
      delivery.samples += grid_.SliceOf(task.first_batch + b).samples;
    }
  }
  worker.live = 0;
  const absl::Status status = coordinator_.Ready(delivery, Now(), &actions_);
  Take();
  // It was cancelled while the message was under way.
  return absl::IsAborted(status) ? absl::OkStatus() : status;
}

absl::Status ClusterSimulation::Executed(const Event& event) {
  Numbered& numbered = decisions_[event.number - first_decision_];
  const Version version = numbered.version;
  ++numbered.executed;
  while (!decisions_.empty() &&
         decisions_.front().executed == options_.shards) {
    decisions_.pop_front();
    ++first_decision_;
  }
  const absl::Status status = coordinator_.Executed(
      ShardId(event.shard), event.number, version, "", Now(), &actions_);
  Take();
  return status;
}

void ClusterSimulation::Take() {
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
      for (int s = 0; s < options_.shards; ++s) {
        queue_.Add(InOrder(&shards_[s].inbox),
                   {Kind::kDecision, s, 0, decision->decision.number});
      }
    } else if (const auto* commit = std::get_if<RecordCommit>(&action)) {
      Count(*commit);
    } else if (const auto* end = std::get_if<RecordEnd>(&action)) {
      Count(*end);
    } else if (const auto* finish = std::get_if<FinishRun>(&action)) {
      finished_ = true;
      failure_ = finish->failure;
    }
  }
  actions_.clear();
}

void ClusterSimulation::SendToWorker(const Task& task) {
  ++window_.started;
  Worker& worker = workers_[task.key.worker.value()];
  worker.tasks.push_back(task);
  queue_.Add(InOrder(&worker.inbox), {Kind::kTask, 0, task.key.worker.value(),
                                      task.key.sequence.value()});
}

void ClusterSimulation::SendCancel(const GradientKey& key) {
  Worker& worker = workers_[key.worker.value()];
  queue_.Add(InOrder(&worker.inbox),
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
  window_.commits.push_back(queue_.now());
  for (const RecordCommit::Entry& entry : commit.entries) {
    Decided(entry.key);
    ++window_.gradients.applied;
    const Version base =
        *std::min_element(entry.shard_bases.begin(), entry.shard_bases.end());
    const int64_t staleness = commit.version - 1 - base;
    window_.staleness_sum += staleness;
    if (staleness >= static_cast<int64_t>(window_.staleness_histogram.size())) {
      window_.staleness_histogram.resize(staleness + 1);
    }
    ++window_.staleness_histogram[staleness];
  }
}

void ClusterSimulation::Count(const RecordEnd& end) {
  // Ready gradients have been computed to their end for nothing; what is still
  // computed is counted when the Cancel arrives.
  window_.wasted_seconds += Decided(end.key);
  switch (end.outcome) {
    case Outcome::kCancelled:
      ++window_.gradients.cancelled;
      break;
    case Outcome::kDropped:
      ++window_.gradients.dropped;
      break;
    case Outcome::kRejected:
      ++window_.gradients.rejected;
      break;
    case Outcome::kLost:
      ++window_.gradients.lost;
      break;
    case Outcome::kApplied:
      break;  // Counted with its update.
  }
}

}  // namespace sluice
