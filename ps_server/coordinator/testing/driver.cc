#include "ps_server/coordinator/testing/driver.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/batch_grid.h"
#include "common/status_macros.h"
#include "ps_server/coordinator/policy/batch_schedule.h"

namespace sluice {

Driver::Driver(const CoordinatorOptions& options)
    : options_(options),
      coordinator_(options, now_),
      executed_(options.job.cluster().shards()) {}

void Driver::Start() {
  for (int s = 0; s < options_.job.cluster().shards(); ++s) {
    SLUICE_CHECK(Join({Role::kShard, s}).ok());
  }
  for (int w = 0; w < options_.job.cluster().workers(); ++w) JoinWorker(w);
  if (options_.job.evaluation().enabled())
    SLUICE_CHECK(Join({Role::kEvaluator, 0}).ok());
}

absl::StatusOr<Coordinator::JoinReply> Driver::Join(
    Peer peer, int64_t resume,
    const std::map<std::string, std::string>& inputs) {
  Coordinator::JoinRequest request;
  request.peer = peer;
  request.resume = Incarnation(resume);
  request.process = peer.ToString();
  request.inputs = inputs;
  return Ask(request);
}

absl::StatusOr<Coordinator::JoinReply> Driver::JoinAny(int64_t wished) {
  Coordinator::JoinRequest request;
  request.peer = {Role::kWorker, wished};
  request.any_number = true;
  request.process = "test";
  return Ask(request);
}

absl::StatusOr<Coordinator::JoinReply> Driver::Ask(
    const Coordinator::JoinRequest& request) {
  Actions actions;
  auto reply = coordinator_.Join(request, now_, &actions);
  if (reply.ok()) heard_[reply->peer] = reply->incarnation;
  Take(std::move(actions));
  return reply;
}

void Driver::JoinWorker(int64_t worker) {
  SLUICE_CHECK(Join({Role::kWorker, worker}).ok());
}

void Driver::Disconnect(Peer peer) {
  Actions actions;
  coordinator_.Disconnected(peer, heard_.at(peer), now_, &actions);
  Take(std::move(actions));
}

void Driver::Leave(Peer peer, bool for_good) {
  Actions actions;
  coordinator_.Leave(peer, heard_.at(peer), "test", now_, &actions, for_good);
  heard_.erase(peer);
  if (peer.role == Role::kWorker) task_.erase(peer.id);
  Take(std::move(actions));
}

absl::Status Driver::ReportDeath(Peer peer, const std::string& process) {
  Actions actions;
  absl::Status status =
      coordinator_.DeathReported(peer, process, "killed", now_, &actions);
  Take(std::move(actions));
  return status;
}

void Driver::Advance(absl::Duration duration) {
  const absl::Time end = now_ + duration;
  while (now_ < end) {
    now_ += options_.tick;
    for (const auto& [peer, incarnation] : heard_) {
      coordinator_.Heard(peer, incarnation, now_).IgnoreError();
    }
    Actions actions;
    coordinator_.Tick(now_, &actions);
    Take(std::move(actions));
  }
}

void Driver::Pause(absl::Duration duration) {
  now_ += duration;
  Actions actions;
  coordinator_.Tick(now_, &actions);
  Take(std::move(actions));
}

std::optional<Task> Driver::TaskOf(int64_t worker) const {
  const auto it = task_.find(worker);
  if (it == task_.end()) return std::nullopt;
  return it->second;
}

int64_t Driver::BatchOf(int64_t worker) const {
  const auto task = TaskOf(worker);
  return task.has_value() ? task->first_batch.value() : -1;
}

absl::Status Driver::Deliver(int64_t worker) {
  return DeliverAt(worker, task_.at(worker).version.value());
}

absl::Status Driver::DeliverAt(int64_t worker, int64_t base) {
  const Task task = task_.at(worker);
  task_.erase(worker);
  return Deliver(task, base);
}

absl::Status Driver::Deliver(const Task& task, int64_t base) {
  const BatchGrid grid = JobGrid(options_.job, options_.train_samples);
  Delivery delivery;
  delivery.key = task.key;
  delivery.shard_bases.assign(options_.job.cluster().shards(), Version(base));
  for (int b = 0; b < task.batches; ++b) {
    delivery.samples += grid.SliceOf(task.first_batch + b).samples;
  }
  delivery.loss = loss_;
  Actions actions;
  absl::Status status = coordinator_.Ready(delivery, now_, &actions);
  Take(std::move(actions));
  return status;
}

absl::Status Driver::Reject(int64_t worker) {
  const GradientKey key = task_.at(worker).key;
  task_.erase(worker);
  Actions actions;
  absl::Status status =
      coordinator_.Rejected(key, "conv0.weight[3] is NaN", now_, &actions);
  Take(std::move(actions));
  return status;
}

void Driver::Evaluated(int64_t version, double accuracy,
                       const std::string& error, int64_t samples) {
  Evaluation evaluation;
  evaluation.version = Version(version);
  evaluation.accuracy = accuracy;
  evaluation.samples = samples;
  evaluation.error = error;
  Actions actions;
  coordinator_.Evaluated(evaluation, now_, &actions);
  Take(std::move(actions));
}

absl::StatusOr<Version> Driver::RequestCheckpoint() {
  Actions actions;
  auto version = coordinator_.RequestCheckpoint(now_, &actions);
  Take(std::move(actions));
  return version;
}

void Driver::RequestStop() {
  Actions actions;
  coordinator_.RequestStop("asked to", now_, &actions);
  Take(std::move(actions));
}

void Driver::Stored(int64_t shard, int64_t version, const std::string& error) {
  StoredPart part;
  part.file = absl::StrCat("shard-", shard);
  part.error = error;
  Actions actions;
  SLUICE_CHECK(coordinator_
                   .Stored(ShardId(shard), Version(version), std::move(part),
                           now_, &actions)
                   .ok());
  Take(std::move(actions));
}

void Driver::ManifestWritten(int64_t version, const std::string& error) {
  Actions actions;
  coordinator_.ManifestWritten(Version(version), error, now_, &actions);
  Take(std::move(actions));
}

void Driver::ReleaseShard(int64_t shard) {
  held_.erase(shard);
  ExecutePending();
}

absl::Status Driver::Execute(int64_t shard, int64_t number) {
  executed_[shard] = number;
  Actions actions;
  absl::Status status = coordinator_.Executed(
      ShardId(shard), number, Version(version_at_[number]), "", now_, &actions);
  Take(std::move(actions));
  return status;
}

void Driver::ExecutePending() {
  const int64_t last = static_cast<int64_t>(version_at_.size()) - 1;
  for (int64_t s = 0; s < options_.job.cluster().shards(); ++s) {
    if (held_.contains(s) || executed_[s] == last) continue;
    SLUICE_CHECK(Execute(s, last).ok());
    return;  // Execute() has come back here for the others.
  }
}

void Driver::Take(Actions actions) {
  for (Action& action : actions) {
    if (const auto* send = std::get_if<SendTask>(&action)) {
      task_[send->task.key.worker.value()] = send->task;
    } else if (const auto* cancel = std::get_if<SendCancel>(&action)) {
      task_.erase(cancel->key.worker.value());
    } else if (const auto* decision = std::get_if<SendDecision>(&action)) {
      int64_t version = version_at_.back();
      if (const auto* commit = std::get_if<Commit>(&decision->decision.what)) {
        version = commit->version.value();
      }
      if (const auto* begin = std::get_if<Restore>(&decision->decision.what)) {
        version = begin->version.value();
      }
      version_at_.push_back(version);
    }
    out_.push_back(std::move(action));
  }
  ExecutePending();
}

std::vector<std::vector<int64_t>> Driver::CommittedBatches() const {
  std::vector<std::vector<int64_t>> all;
  for (const auto& commit : All<RecordCommit>()) {
    std::vector<int64_t>& batches = all.emplace_back();
    for (const auto& entry : commit.entries) {
      batches.push_back(entry.first_batch.value());
    }
  }
  return all;
}

std::optional<FinishRun> Driver::Finished() const {
  const auto all = All<FinishRun>();
  if (all.empty()) return std::nullopt;
  return all.back();
}

std::optional<SendVerdict> Driver::VerdictOf(const GradientKey& key) const {
  for (const auto& verdict : All<SendVerdict>()) {
    if (verdict.key == key) return verdict;
  }
  return std::nullopt;
}

}  // namespace sluice
