#include "ps_server/coordinator/testing/fake_cluster.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "ps_server/coordinator/policy/batch_schedule.h"
#include "ps_server/coordinator/versions/checkpoints.h"

namespace sluice {

FakeCluster::FakeCluster(const CoordinatorOptions& options,
                         const FakeFaults& faults, uint64_t seed)
    : options_(options),
      faults_(faults),
      seed_(seed),
      grid_(JobGrid(options.job, options.train_samples)),
      random_(seed, "fake cluster"),
      coordinator_(options, now_),
      checker_(options),
      workers_(options.job.cluster().workers()),
      shards_(options.job.cluster().shards()) {
  for (size_t w = 0; w < workers_.size(); ++w) workers_[w].id = w;
}

uint64_t FakeCluster::Draw(uint64_t below) {
  return random_.Uint64(draws_++) % below;
}

bool FakeCluster::Chance(int per_thousand) {
  return per_thousand > 0 && Draw(1000) < static_cast<uint64_t>(per_thousand);
}

void FakeCluster::JoinShards() {
  for (int64_t s = 0; s < options_.job.cluster().shards(); ++s) {
    Actions actions;
    Coordinator::JoinRequest request;
    request.peer = {Role::kShard, s};
    SLUICE_CHECK(coordinator_.Join(request, now_, &actions).ok());
    Take(actions);
  }
}

void FakeCluster::Run(int64_t max_steps) {
  // No version is ever so large.
  RunUntil(Version(std::numeric_limits<int64_t>::max()), max_steps);
  if (Violation().empty()) checker_.CheckEnd();
}

void FakeCluster::RunUntil(Version version, int64_t max_steps) {
  if (steps_ == 0) JoinShards();
  while (checker_.decided() < version && !finished_.has_value() &&
         steps_ < max_steps && Violation().empty()) {
    ++steps_;
    Step();
  }
}

std::string FakeCluster::Violation() const {
  const std::string& rule =
      violation_.empty() ? checker_.violation() : violation_;
  if (rule.empty()) return "";
  return absl::StrCat("seed ", seed_, ", step ", steps_, ": ", rule);
}

void FakeCluster::Step() {
  now_ += absl::Milliseconds(1);
  // Whatever happens, time passes now and then.
  if (steps_ % 64 == 0) return StepTime();
  if (Chance(faults_.join) &&
      !(options_.job.data().sharding() == proto::Data::STATIC) &&
      static_cast<int>(workers_.size()) <
          options_.job.cluster().max_workers()) {
    Worker& joiner = workers_.emplace_back();
    joiner.id = static_cast<int64_t>(workers_.size()) - 1;
  }
  const uint64_t processes = workers_.size() + shards_.size();
  const uint64_t pick =
      Draw(processes + (StoresVersions(options_.job) ? 2 : 1));
  if (pick < workers_.size()) {
    StepWorker(workers_[pick]);
  } else if (pick < processes) {
    StepShard(static_cast<int64_t>(pick - workers_.size()));
  } else if (pick == processes) {
    StepEvaluator();
  } else {
    StepManifests();
  }
}

void FakeCluster::StepTime() {
  now_ += options_.tick;
  if (Chance(faults_.pause)) {
    // What others have said meanwhile is read after the tick.
    ++pauses_;
    now_ +=
        absl::Seconds(options_.job.limits().lease_s()) * (0.1 * (1 + Draw(40)));
    Actions actions;
    coordinator_.Tick(now_, &actions);
    Take(actions);
  }
  for (const Worker& worker : workers_) {
    if (!worker.up) continue;
    coordinator_.Heard({Role::kWorker, worker.id}, worker.incarnation, now_)
        .IgnoreError();
  }
  for (int64_t s = 0; s < options_.job.cluster().shards(); ++s) {
    coordinator_.Heard({Role::kShard, s}, Incarnation(1), now_).IgnoreError();
  }
  if (evaluator_up_) {
    coordinator_.Heard({Role::kEvaluator, 0}, evaluator_incarnation_, now_)
        .IgnoreError();
  }
  Actions actions;
  coordinator_.Tick(now_, &actions);
  Take(actions);
}

void FakeCluster::StepWorker(Worker& worker) {
  if (worker.gone) return;
  if (!worker.up) {
    // Sooner or later the process is started again.
    if (worker.incarnation.value() == 0 || Draw(20) == 0) {
      JoinWorker(worker, /*resume=*/false);
    }
    return;
  }
  if (!worker.connected) return JoinWorker(worker, /*resume=*/true);
  if (InjectFault(worker)) return;
  switch (Draw(3)) {
    case 0:
      return Receive(worker);
    case 1:
      return Send(worker);
    default:
      return Compute(worker);
  }
}

bool FakeCluster::InjectFault(Worker& worker) {
  const Peer peer{Role::kWorker, worker.id};
  if (Chance(faults_.kill)) {
    KillWorker(worker);
    return true;
  }
  if (Chance(faults_.reconnect)) {
    worker.connected = false;
    Actions actions;
    coordinator_.Disconnected(peer, worker.incarnation, now_, &actions);
    Take(actions);
    return true;
  }
  const auto up = [](const Worker& w) { return w.up; };
  if (std::count_if(workers_.begin(), workers_.end(), up) > 1 &&
      Chance(faults_.leave)) {
    worker.gone = true;
    worker.up = false;
    Actions actions;
    coordinator_.Leave(peer, worker.incarnation, "test", now_, &actions);
    Take(actions);
    return true;
  }
  return false;
}

void FakeCluster::KillWorker(Worker& worker) {
  ++kills_;
  worker.up = false;
  worker.connected = false;
  worker.inbox.clear();
  worker.outbox.clear();
  worker.task.reset();
  // Half of the deaths break the stream, the others are found by the lease.
  if (Draw(2) == 0) return;
  Actions actions;
  coordinator_.Disconnected({Role::kWorker, worker.id}, worker.incarnation,
                            now_, &actions);
  Take(actions);
}

void FakeCluster::JoinWorker(Worker& worker, bool resume) {
  Coordinator::JoinRequest request;
  request.peer = {Role::kWorker, worker.id};
  if (resume) request.resume = worker.incarnation;
  // Known before the actions are taken: the first task may be among them.
  Actions actions;
  const auto reply = coordinator_.Join(request, now_, &actions);
  if (reply.ok()) {
    worker.up = true;
    worker.connected = true;
    worker.incarnation = reply->incarnation;
  } else if (absl::IsAborted(reply.status())) {
    worker.up = false;
    worker.inbox.clear();
    worker.outbox.clear();
    worker.task.reset();
  }
  Take(actions);
}

void FakeCluster::Receive(Worker& worker) {
  if (worker.inbox.empty()) return;
  const Action action = std::move(worker.inbox.front());
  worker.inbox.pop_front();
  if (const auto* send = std::get_if<SendTask>(&action)) {
    worker.task = send->task;
    worker.bases.clear();
  } else if (const auto* cancel = std::get_if<SendCancel>(&action)) {
    if (worker.task.has_value() && worker.task->key == cancel->key) {
      worker.task.reset();
    }
  }
}

void FakeCluster::Compute(Worker& worker) {
  if (!worker.task.has_value()) return;
  const Task& task = *worker.task;
  if (worker.bases.empty()) {
    // An exact pull that comes too late is taken to have come in time: its
    // gradient arrives after the task was cancelled.
    for (const Shard& shard : shards_) {
      if (shard.version < task.version) {
        worker.bases.clear();
        return;
      }
      worker.bases.push_back(task.exact ? task.version : shard.version);
    }
    return;
  }
  if (Chance(faults_.poison)) {
    worker.outbox.push_back(task.key);
    worker.task.reset();
    return;
  }
  Delivery delivery;
  delivery.key = task.key;
  delivery.shard_bases = worker.bases;
  for (int b = 0; b < task.batches; ++b) {
    delivery.samples += grid_.SliceOf(task.first_batch + b).samples;
  }
  // Falls, so that an adaptive K grows.
  delivery.loss = 1 / (1.0 + static_cast<double>(task.version.value()));
  worker.outbox.push_back(delivery);
  if (Chance(faults_.duplicate)) worker.outbox.push_back(delivery);
  worker.task.reset();
}

void FakeCluster::Send(Worker& worker) {
  if (worker.outbox.empty()) return;
  const auto message = std::move(worker.outbox.front());
  worker.outbox.pop_front();
  Actions actions;
  if (const auto* delivery = std::get_if<Delivery>(&message)) {
    const absl::Status status = coordinator_.Ready(*delivery, now_, &actions);
    SLUICE_CHECK(status.ok() || absl::IsAborted(status));
    if (status.ok()) {
      checker_.Accepted(delivery->key);
    } else {
      ++late_;
    }
    Take(actions);
    return;
  }
  const GradientKey& key = std::get<GradientKey>(message);
  coordinator_.Rejected(key, "dense0.bias[1] is NaN", now_, &actions)
      .IgnoreError();
  Take(actions);
}

void FakeCluster::StepEvaluator() {
  if (!options_.job.evaluation().enabled()) return;
  Actions actions;
  if (!evaluator_up_) {
    Coordinator::JoinRequest request;
    request.peer = {Role::kEvaluator, 0};
    const auto reply = coordinator_.Join(request, now_, &actions);
    if (reply.ok()) {
      evaluator_up_ = true;
      evaluator_incarnation_ = reply->incarnation;
    }
  } else if (Chance(faults_.kill_evaluator)) {
    evaluator_up_ = false;
    evaluate_.reset();
    checker_.EvaluatorDone();
    coordinator_.Disconnected({Role::kEvaluator, 0}, evaluator_incarnation_,
                              now_, &actions);
  } else if (evaluate_.has_value() && Draw(10) == 0) {
    Evaluation evaluation;
    evaluation.version = evaluate_->version;
    evaluation.accuracy = 0.5;
    evaluation.samples = 8;
    evaluate_.reset();
    checker_.EvaluatorDone();
    coordinator_.Evaluated(evaluation, now_, &actions);
  }
  Take(actions);
}

void FakeCluster::Take(const Actions& actions) {
  checker_.Observe(actions);
  for (const Action& action : actions) Deliver(action);
}

void FakeCluster::Deliver(const Action& action) {
  const auto to_worker = [&](const GradientKey& key) {
    Worker& worker = workers_[key.worker.value()];
    if (worker.up && worker.incarnation == key.incarnation) {
      worker.inbox.push_back(action);
    }
  };
  if (const auto* send = std::get_if<SendTask>(&action)) {
    to_worker(send->task.key);
  } else if (const auto* cancel = std::get_if<SendCancel>(&action)) {
    to_worker(cancel->key);
  } else if (const auto* decision = std::get_if<SendDecision>(&action)) {
    for (Shard& shard : shards_) shard.inbox.push_back(decision->decision);
  } else if (const auto* evaluate = std::get_if<SendEvaluate>(&action)) {
    if (evaluator_up_) evaluate_ = *evaluate;
  } else if (const auto* manifest = std::get_if<StoreManifest>(&action)) {
    manifests_.push_back(manifest->version);
  } else if (const auto* end = std::get_if<EndSession>(&action)) {
    CheckDeath(*end);
  } else if (const auto* finish = std::get_if<FinishRun>(&action)) {
    finished_ = *finish;
  }
}

void FakeCluster::CheckDeath(const EndSession& end) {
  const bool lives =
      end.peer.role == Role::kShard ||
      (end.peer.role == Role::kWorker && workers_[end.peer.id].up &&
       workers_[end.peer.id].incarnation == end.incarnation);
  if (!lives || !violation_.empty()) return;
  violation_ = absl::StrCat(end.peer.ToString(), " lives and ", end.reason);
}

}  // namespace sluice
