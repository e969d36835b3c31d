// From a worker that may start, over its delivery, to a verdict.
//
// Every task that is issued ends exactly once: in CloseUpdate, when an update
// takes its gradient, or in EndTask. Either records the end, sends one verdict
// to the worker if that life of it still lives, and decides what frees the
// room on every shard: the Commit, or a Discard. What becomes of the block is
// a decision of its own: done, back to the schedule (EndAndReturn), computed
// once more (Rejected, TaskOverran), or left out for good.
//
//   what happens       what is decided                the task, its block
//   IssueTask          RecordTask, SendTask           live, live
//   Ready              RecordComputeTime              ready, held
//   an update          RecordCommit, Commit, verdict  gone, done
//
//   IssueTask          RecordTask, SendTask           live, live
//   the worker dies    RecordEnd, Discard             gone, goes out first
//
// Where shards fold, what goes out first may need a worker that waits behind it
// (FreeForTurn).
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job/group.h"
#include "common/job/learning_rate.h"
#include "common/telemetry/log_value.h"
#include "ps_server/coordinator/core/coordinator.h"
#include "ps_server/coordinator/core/counters.h"
#include "ps_server/coordinator/core/task_times.h"

namespace sluice {
namespace {

// Of a task: eleven days for each of 65536 mini-batches.
constexpr double kMostSeconds = 65536e6;

std::string DescribeLoss(const Task& task, double loss, int64_t total) {
  return absl::StrCat("event=loss_not_finite worker=", task.key.worker.value(),
                      " mini_batch=", task.first_batch.value(),
                      " version=", task.version.value(), " loss=", loss,
                      " losses_not_finite_total=", total);
}

// Nobody of the worker's group has had the block before.
bool IsNewTo(const proto::Job& job, const BatchSchedule::Candidate& candidate,
             WorkerId worker) {
  return std::none_of(candidate.holders.begin(), candidate.holders.end(),
                      [&](WorkerId holder) {
                        return GroupOf(job, holder) == GroupOf(job, worker);
                      });
}

}  // namespace

void Coordinator::AssignTasks() {
  // An update that waits for the commit window is as good as decided: what
  // started now would be cancelled with it, or stale.
  if (phase_ != Phase::kRunning || policy_.Due(StillToCome())) return;
  while (stream_.HasRoom() && (AssignOne() || FreeForTurn())) {
  }
}

bool Coordinator::AssignOne() {
  if (policy_.startable().empty()) return false;
  if (grid_.partitions() > 1) {
    const WorkerId worker = *policy_.startable().begin();
    const auto next = schedule_.Next(static_cast<int>(worker.value()));
    if (!next.has_value()) return false;
    IssueTask(worker, next->block);
    return true;
  }
  for (int passed_over = 0;; ++passed_over) {
    const auto next = schedule_.Next(0, passed_over);
    if (!next.has_value()) return false;
    const auto worker = ChooseWorker(*next);
    if (!worker.has_value()) continue;
    IssueTask(*worker, next->block);
    return true;
  }
}

// Where shards fold, who is not admitted waits for the mini-batches before its
// own. If the first of these has come back, and who is to take it waits behind
// it, nobody's task would ever end: so the last of those who wait gives its
// task up. True: AssignOne has somebody for that mini-batch now.
bool Coordinator::FreeForTurn() {
  // A partition's worker has its mini-batches one after the other.
  if (!fold_.has_value() || grid_.partitions() > 1) return false;
  const auto next = schedule_.Next(0);
  if (!next.has_value() || !Admitted(fold_->TurnOf(next->block))) return false;
  const OpenTask* last = nullptr;
  bool last_is_new = false, any_is_new = false;
  for (const GradientKey& key : tasks_.AllLive()) {
    const OpenTask* open = tasks_.Find(key);
    if (Admitted(*open->task.turn)) return false;
    const bool is_new = IsNewTo(job_, *next, key.worker);
    any_is_new |= is_new;
    // Who is suspect starts nothing; it comes back, or its lease ends.
    const Peer peer{Role::kWorker, key.worker.value()};
    if (members_.Get(peer).life != PeerLife::kAlive) continue;
    if (last == nullptr || std::pair(is_new, open->task.turn) >
                               std::pair(last_is_new, last->task.turn)) {
      last = open;
      last_is_new = is_new;
    }
  }
  if (last == nullptr || (next->rejected && any_is_new && !last_is_new)) {
    return false;
  }
  EndAndReturn(last->task.key, Outcome::kCancelled,
               absl::StrCat("its worker is needed for mini-batch ",
                            schedule_.BlockAt(next->block).first_batch.value(),
                            ", whose turn comes first"));
  return true;
}

// Whether shards that fold have room for the gradient, or will soon.
bool Coordinator::Admitted(int64_t turn) const {
  return turn < fold_->taken() + job_.limits().staged_gradients();
}

// Somebody of a group that has not had the block before, if there is one. A
// block whose gradient was bad also waits for such a one that still computes.
std::optional<WorkerId> Coordinator::ChooseWorker(
    const BatchSchedule::Candidate& candidate) const {
  for (WorkerId worker : policy_.startable()) {
    if (IsNewTo(job_, candidate, worker)) return worker;
  }
  if (candidate.rejected) {
    for (const GradientKey& key : tasks_.AllLive()) {
      if (IsNewTo(job_, candidate, key.worker)) return std::nullopt;
    }
  }
  return *policy_.startable().begin();
}

void Coordinator::IssueTask(WorkerId worker, BlockId block) {
  const BatchSchedule::Block what = schedule_.BlockAt(block);
  const Peer peer{Role::kWorker, worker.value()};
  Task task;
  task.key = tasks_.NextKey(worker, members_.Get(peer).incarnation);
  task.first_batch = what.first_batch;
  task.batches = what.batches;
  task.version = stream_.decided();
  task.exact = policy_.rules().synchronous();
  if (job_.sync().local_steps() > 1) {
    task.local_learning_rate =
        LearningRate(learning_rate_, stats_.samples_applied(), 1);
  }
  absl::Time deadline = awake_ + DeadlineAfter(schedule_.overruns(block));
  if (fold_.has_value()) {
    task.turn = fold_->TurnOf(block);
    // Before that it cannot be pushed, which is not its worker's fault.
    const bool admitted = Admitted(*task.turn);
    if (!admitted) deadline = absl::InfiniteFuture();  // DecideFold sets it.
  }
  stream_.TakeRoom();
  schedule_.Issue(block, worker);
  tasks_.Open(task, block, what.samples, awake_, deadline);
  policy_.TaskOpened(worker);
  RefreshSupply(block);
  Emit(RecordTask{task});
  Emit(SendTask{task});
}

absl::Status Coordinator::Ready(const Delivery& delivery, absl::Time now,
                                Actions* out) {
  const Turn turn(this, now, out);
  const OpenTask* open = tasks_.Find(delivery.key);
  if (open == nullptr) {
    return absl::AbortedError(
        absl::StrCat(delivery.key.ToString(), ": its task has ended"));
  }
  if (open->ready) return absl::OkStatus();
  absl::Status valid = CheckDelivery(*open, delivery);
  if (!valid.ok()) return valid;
  if (delivery.compute_seconds > 0) {
    Emit(RecordComputeTime{delivery.key.worker,
                           delivery.compute_seconds / open->task.batches});
  }
  // The shards have found the gradient finite, so it counts.
  if (!std::isfinite(delivery.loss)) {
    stats_.Count(&RunCounters::losses_not_finite);
    Say(Announce::Level::kWarning,
        DescribeLoss(open->task, delivery.loss,
                     stats_.counters().losses_not_finite));
  }
  stats_.Logged(delivery.logged);
  stats_.Timed(delivery);
  const Version base = *std::min_element(delivery.shard_bases.begin(),
                                         delivery.shard_bases.end());
  const auto too_stale = policy_.TooStale(base, stream_.decided());
  if (too_stale.has_value()) {
    EndAndReturn(delivery.key, policy_.StaleOutcome(), *too_stale);
    return absl::OkStatus();
  }
  const BlockId block = open->block;
  tasks_.MarkReady(delivery, now_);
  schedule_.Hold(block);
  if (fold_.has_value()) fold_->Ready(block, delivery.key);
  policy_.Delivered(delivery.key, base);
  policy_.TaskEnded(delivery.key.worker);
  return absl::OkStatus();
}

absl::Status Coordinator::CheckDelivery(const OpenTask& open,
                                        const Delivery& delivery) const {
  const std::string who = delivery.key.ToString();
  const int bases =
      options_.bases > 0 ? options_.bases : job_.cluster().shards();
  if (static_cast<int>(delivery.shard_bases.size()) != bases) {
    return absl::InvalidArgumentError(
        absl::StrCat(who, ": bases of ", delivery.shard_bases.size(),
                     " shards, expected ", bases));
  }
  for (int s = 0; s < bases; ++s) {
    const Version base = delivery.shard_bases[s];
    const Version newest =
        open.task.exact ? open.task.version : stream_.decided();
    if (base >= open.task.version && base <= newest) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        who, ": pulled version ", base.value(), " from shard ", s,
        ", expected ", open.task.version.value(), " to ", newest.value()));
  }
  if (delivery.samples != open.samples) {
    return absl::InvalidArgumentError(
        absl::StrCat(who, ": computed on ", delivery.samples,
                     " samples, expected ", open.samples));
  }
  for (const TaskPhase& phase : kTaskPhases) {
    const double seconds = delivery.*phase.seconds;
    if (seconds >= 0 && seconds <= kMostSeconds) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(who, ": ", phase.name, " took ", seconds,
                     " s, expected 0 to ", kMostSeconds));
  }
  return absl::OkStatus();
}

absl::Status Coordinator::Rejected(const GradientKey& key,
                                   const std::string& reason, absl::Time now,
                                   Actions* out) {
  const Turn turn(this, now, out);
  const OpenTask* open = tasks_.Find(key);
  if (open == nullptr) {
    return absl::AbortedError(
        absl::StrCat(key.ToString(), ": its task has ended"));
  }
  if (open->ready) {
    return absl::InvalidArgumentError(
        absl::StrCat(key.ToString(), ": rejected after every shard staged it"));
  }
  const OpenTask ended = EndTask(key, Outcome::kRejected, reason);
  const int times = schedule_.Reject(ended.block);
  const std::string what = absl::StrCat(
      "version ", ended.task.version.value(), ", worker ", key.worker.value(),
      ", mini-batch ", ended.task.first_batch.value(), ": ", reason);
  Say(Announce::Level::kWarning,
      absl::StrCat("event=rejected times=", times, " what=", LogValue(what)));
  if (times >= 2 && job_.sync().on_bad_gradient() == proto::FAIL) {
    Fail(absl::StrCat("diverged: ", what));
  } else if (times >= 2) {
    schedule_.LeaveOut(ended.block);
    stats_.Count(&RunCounters::batches_left_out, ended.task.batches);
  }
  RefreshSupply(ended.block);
  return absl::OkStatus();
}

// Ends a task that was not applied; what becomes of its block is up to the
// caller. By value: `key` may be part of the task that this closes.
OpenTask Coordinator::EndTask(GradientKey key, Outcome outcome,
                              const std::string& reason) {
  OpenTask ended = tasks_.Close(key);
  if (ended.ready) {
    policy_.Decided(key);
  } else {
    policy_.TaskEnded(key.worker);
  }
  stats_.Ended(key.worker, outcome);
  const Peer peer{Role::kWorker, key.worker.value()};
  const bool worker_lives = members_.IsCurrent(peer, key.incarnation);
  Emit(RecordEnd{key, outcome, reason,
                 ended.ready ? now_ - ended.ready_since : absl::ZeroDuration(),
                 /*worker_lost=*/!ended.ready && !worker_lives});
  if (!ended.ready && outcome == Outcome::kCancelled && worker_lives) {
    Emit(SendCancel{key, reason});
  }
  SendVerdictTo(key, outcome, reason, Version(0));
  discarded_.push_back(key);
  return ended;
}

void Coordinator::EndAndReturn(GradientKey key, Outcome outcome,
                               const std::string& reason) {
  const OpenTask ended = EndTask(key, outcome, reason);
  schedule_.Return(ended.block);
  RefreshSupply(ended.block);
}

// The mini-batch is computed again, by somebody else if there is one; but not
// for ever: after kMostOverruns there is no further attempt.
void Coordinator::TaskOverran(GradientKey key) {
  const BlockId block = tasks_.Find(key)->block;
  const std::string why = absl::StrCat(
      "worker ", key.worker.value(), " took longer than ",
      absl::FormatDuration(DeadlineAfter(schedule_.overruns(block))),
      " for one task");
  const OpenTask ended = EndTask(key, Outcome::kCancelled, why);
  const int times = schedule_.Overrun(block);
  stats_.Count(&RunCounters::tasks_overdue);
  Say(Announce::Level::kWarning,
      absl::StrCat("event=overdue key=", key.ToString(), " times=", times,
                   " reason=", LogValue(why)));
  if (times >= kMostOverruns) {
    const std::string what =
        absl::StrCat("mini-batch ", ended.task.first_batch.value(), ": took ",
                     DescribeOverruns(), ", last worker ", key.worker.value());
    if (job_.sync().on_bad_gradient() == proto::FAIL) {
      return Fail(absl::StrCat(what, "; raise limits.task_deadline_s"));
    }
    Say(Announce::Level::kError,
        absl::StrCat("event=left_out mini_batches=", ended.task.batches,
                     " reason=", LogValue(what)));
    schedule_.LeaveOut(block);
    stats_.Count(&RunCounters::batches_left_out, ended.task.batches);
  }
  RefreshSupply(block);
}

// What a mini-batch, or an evaluation, may take that took too long `overruns`
// times before.
absl::Duration Coordinator::DeadlineAfter(int overruns) const {
  return overruns > 0 ? 2 * absl::Seconds(job_.limits().task_deadline_s())
                      : absl::Seconds(job_.limits().task_deadline_s());
}

// "5 times longer than limits.task_deadline_s allows (30s, ...)".
std::string Coordinator::DescribeOverruns() const {
  return absl::StrCat(
      kMostOverruns, " times longer than limits.task_deadline_s allows (",
      absl::FormatDuration(DeadlineAfter(0)), ", from the second time on ",
      absl::FormatDuration(DeadlineAfter(1)), ")");
}

void Coordinator::EndAllTasks(Outcome outcome, const std::string& reason) {
  for (const GradientKey& key : tasks_.AllLive()) {
    EndAndReturn(key, outcome, reason);
  }
  for (const GradientKey& key : tasks_.AllReady()) {
    EndAndReturn(key, outcome, reason);
  }
  DecideDiscard();  // Before the end of the run or the generation.
}

// Tells the policy whose partitions have something that may go out.
void Coordinator::RefreshSupply(BlockId block) {
  if (grid_.partitions() == 1) return;
  const int partition = schedule_.PartitionOf(block);
  policy_.SetSupplied(WorkerId(partition), schedule_.available(partition) > 0);
}

void Coordinator::RefreshAllSupplies() {
  if (grid_.partitions() == 1) return;
  for (int p = 0; p < grid_.partitions(); ++p) {
    policy_.SetSupplied(WorkerId(p), schedule_.available(p) > 0);
  }
}

void Coordinator::SendVerdictTo(const GradientKey& key, Outcome outcome,
                                const std::string& reason, Version version) {
  const Peer peer{Role::kWorker, key.worker.value()};
  if (!members_.IsCurrent(peer, key.incarnation)) return;
  Emit(SendVerdict{key, outcome, reason, version});
}

}  // namespace sluice
