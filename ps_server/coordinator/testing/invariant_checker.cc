#include "ps_server/coordinator/testing/invariant_checker.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/job/job_counts.h"
#include "ps_server/coordinator/policy/batch_schedule.h"
#include "ps_server/coordinator/policy/policy_rules.h"

namespace sluice {

InvariantChecker::InvariantChecker(const CoordinatorOptions& options)
    : options_(options),
      grid_(JobGrid(options.job, options.train_samples)),
      checkpoints_(options),
      executed_(options.job.cluster().shards()) {
  if (options_.resume.has_value()) TakeAsCommitted(*options_.resume);
}

void InvariantChecker::TakeAsCommitted(const ResumePoint& point) {
  const auto take = [&](BlockId block) {
    for (int i = 0; i < options_.job.sync().local_steps(); ++i) {
      committed_.insert(block.value() * options_.job.sync().local_steps() + i);
    }
  };
  const BatchSchedule::Snapshot& done = point.snapshot.schedule;
  for (BlockId b(0); b < done.low_water_mark; ++b) take(b);
  for (BlockId b : done.exceptions) take(b);
}

void InvariantChecker::Expect(bool holds, const std::string& rule) {
  if (!holds && violation_.empty()) violation_ = rule;
}

void InvariantChecker::Observe(const Actions& actions) {
  for (const Action& action : actions) {
    Expect(!finished_ || std::holds_alternative<Announce>(action),
           "nothing is decided after the run is over");
    std::visit([this](const auto& a) { See(a); }, action);
  }
  checkpoints_.CheckSettled();
}

void InvariantChecker::Accepted(const GradientKey& key) {
  const auto it = open_.find(key);
  if (it == open_.end()) return;
  if (it->second.accepted) return;
  it->second.accepted = true;
  live_of_worker_.erase(key.worker.value());
  for (int b = 0; b < it->second.task.batches; ++b) {
    live_of_batch_.erase(it->second.task.first_batch.value() + b);
  }
}

void InvariantChecker::See(const RecordTask& action) {
  const Task& task = action.task;
  const GradientKey& key = task.key;
  checkpoints_.See(action);
  ++tasks_;
  Expect(!open_.contains(key) && !ended_.contains(key),
         absl::StrCat(key.ToString(), ": a key names one task"));
  Expect(key.generation == options_.generation, "keys carry the generation");
  open_[key] = {task};
  Expect(live_of_worker_.emplace(key.worker.value(), key).second,
         absl::StrCat(key.ToString(), ": one live task per worker"));
  for (int b = 0; b < task.batches; ++b) {
    const int64_t batch = task.first_batch.value() + b;
    Expect(live_of_batch_.emplace(batch, key).second,
           absl::StrCat("mini-batch ", batch, ": one live task"));
    Expect(!committed_.contains(batch),
           absl::StrCat("mini-batch ", batch, ": goes out after its update"));
    if ((options_.job.data().sharding() == proto::Data::STATIC)) {
      Expect(grid_.SliceOf(BatchId(batch)).partition == key.worker.value(),
             absl::StrCat(key.ToString(), ": only its own partition"));
    }
  }
  Expect(task.version == decided_, "tasks start from the newest version");
  room_.insert(key);
  Expect(task.turn.has_value() == FoldsGradients(options_.job),
         absl::StrCat(key.ToString(), ": has a turn where shards fold"));
  if (task.turn.has_value()) return;  // Shards give room in turns.
  Expect(static_cast<int>(room_.size()) <=
             options_.job.limits().staged_gradients(),
         absl::StrCat(key.ToString(), ": no task without room"));
  if (static_cast<int>(room_.size()) ==
      options_.job.limits().staged_gradients()) {
    ++room_full_;
  }
}

void InvariantChecker::See(const SendTask& action) {
  const auto it = open_.find(action.task.key);
  Expect(it != open_.end() && !it->second.sent,
         "a task is recorded, then sent, once");
  if (it != open_.end()) it->second.sent = true;
}

void InvariantChecker::Forget(const GradientKey& key) {
  const auto it = open_.find(key);
  Expect(it != open_.end(), absl::StrCat(key.ToString(), ": ends once"));
  if (it == open_.end()) return;
  if (!it->second.accepted) {
    live_of_worker_.erase(key.worker.value());
    for (int b = 0; b < it->second.task.batches; ++b) {
      live_of_batch_.erase(it->second.task.first_batch.value() + b);
    }
  }
  open_.erase(it);
  ended_.insert(key);
}

void InvariantChecker::See(const RecordEnd& action) {
  checkpoints_.See(action);
  ++ends_[action.outcome];
  Expect(action.outcome != Outcome::kApplied, "what was applied is a commit");
  Expect(!action.reason.empty(), "every end has a reason");
  Forget(action.key);
  awaiting_verdict_[action.key] = action.outcome;
}

void InvariantChecker::See(const SendCancel& action) {
  Expect(awaiting_verdict_.contains(action.key),
         "an end is recorded before it is sent");
}

void InvariantChecker::See(const SendVerdict& action) {
  const auto it = awaiting_verdict_.find(action.key);
  Expect(
      it != awaiting_verdict_.end() && it->second == action.outcome,
      absl::StrCat(action.key.ToString(), ": one verdict, after its record"));
  if (it != awaiting_verdict_.end()) awaiting_verdict_.erase(it);
}

void InvariantChecker::See(const RecordCommit& action) {
  Expect(!undecided_.has_value(), "each record is followed by its decision");
  Expect(action.version == decided_ + 1, "versions have no gaps");
  Expect(!action.entries.empty(), "an update has gradients");
  BatchId last(-1);
  for (const auto& entry : action.entries) {
    const auto it = open_.find(entry.key);
    Expect(it != open_.end() && it->second.accepted,
           "only ready gradients are committed");
    Expect(entry.first_batch > last, "sums are in mini-batch order");
    last = entry.first_batch;
    for (int b = 0; b < entry.batches; ++b) {
      const int64_t batch = entry.first_batch.value() + b;
      Expect(committed_.insert(batch).second,
             absl::StrCat("mini-batch ", batch, ": in one update"));
    }
    Forget(entry.key);
    awaiting_verdict_[entry.key] = Outcome::kApplied;
    ++ends_[Outcome::kApplied];
  }
  CheckWeights(action);
  checkpoints_.See(action);
  commits_.push_back(action);
  undecided_ = action;
}

void InvariantChecker::CheckWeights(const RecordCommit& commit) {
  double sum = 0;
  for (const auto& entry : commit.entries) sum += entry.weight;
  if (RulesOf(options_.job.sync().staleness().action()).weighs_less) {
    Expect(sum <= 1 + 1e-6, "stale gradients weigh less");
    return;
  }
  // Each weight is rounded to float once.
  Expect(std::abs(sum - 1) <= commit.entries.size() * 6e-8, "weights sum to 1");
}

void InvariantChecker::See(const SendDecision& action) {
  const Decision& decision = action.decision;
  Expect(decision.number == ++decisions_, "decisions have no gaps");
  if (const auto* begin = std::get_if<Restore>(&decision.what)) {
    Expect(decision.number == 1, "decision 1 is Restore, and no other");
    decided_ = options_.resume.value_or(ResumePoint()).version;
    Expect(begin->version == decided_, "a run begins at its resume point");
  } else if (const auto* commit = std::get_if<Commit>(&decision.what)) {
    SeeCommit(*commit);
  } else if (const auto* fold = std::get_if<Fold>(&decision.what)) {
    SeeFold(*fold);
  } else if (const auto* discard = std::get_if<Discard>(&decision.what)) {
    Expect(!discard->keys.empty(), "a Discard is of something");
    for (const GradientKey& key : discard->keys) {
      Expect(ended_.contains(key), "only ended tasks are discarded");
      frees_[decision.number].push_back(key);
    }
  } else if (const auto* pin = std::get_if<Pin>(&decision.what)) {
    Expect(pin->version == decided_, "the newest version is pinned");
    pinned_.insert(pin->version.value());
  } else if (const auto* release = std::get_if<Release>(&decision.what)) {
    const auto it = pinned_.find(release->version.value());
    Expect(it != pinned_.end(), "what is released was pinned");
    Expect(evaluating_ != release->version,
           "a pin is released when its reader is done");
    if (it != pinned_.end()) pinned_.erase(it);
  } else if (const auto* store = std::get_if<Store>(&decision.what)) {
    checkpoints_.See(*store, decided_);
  }
  version_after_[decision.number] = decided_;
}

void InvariantChecker::SeeFold(const Fold& fold) {
  Expect(FoldsGradients(options_.job) && fold.version == decided_ + 1,
         "the update that is awaited is folded");
  Expect(!fold.entries.empty(), "a Fold is of something");
  for (const CommitEntry& entry : fold.entries) {
    const auto open = open_.find(entry.key);
    Expect(open != open_.end() && open->second.accepted &&
               open->second.task.turn == static_cast<int64_t>(folded_.size()),
           "what is ready is folded, each in its turn");
    folded_.push_back(entry);
  }
}

void InvariantChecker::SeeCommit(const Commit& commit) {
  Expect(undecided_.has_value() && undecided_->version == commit.version,
         "a commit is recorded before it is decided");
  if (!undecided_.has_value()) return;
  Expect(undecided_->entries.size() == commit.entries.size() &&
             undecided_->learning_rate == commit.learning_rate,
         "the record is the decision");
  Expect(commit.folded == static_cast<int>(folded_.size()) &&
             std::equal(folded_.begin(), folded_.end(), commit.entries.begin()),
         "a Commit begins with what was folded");
  folded_.clear();
  std::vector<GradientKey>& freed = frees_[decisions_];
  for (size_t i = 0; i < commit.entries.size(); ++i) {
    Expect(commit.entries[i].key == undecided_->entries[i].key &&
               commit.entries[i].weight == undecided_->entries[i].weight,
           "the record is the decision");
    freed.push_back(commit.entries[i].key);
  }
  undecided_.reset();
  decided_ = commit.version;
  checkpoints_.See(commit);
  if (commit.pin) pinned_.insert(commit.version.value());
  const int64_t slowest = *std::min_element(executed_.begin(), executed_.end());
  const int64_t ahead = decided_ - VersionAt(slowest);
  Expect(ahead <= options_.job.limits().commit_window(),
         "versions stay in the window");
  if (ahead == options_.job.limits().commit_window()) ++window_full_;
}

Version InvariantChecker::VersionAt(int64_t number) const {
  const auto it = version_after_.find(number);
  return it == version_after_.end() ? Version(0) : it->second;
}

void InvariantChecker::Executed(int64_t shard, int64_t number) {
  Expect(number <= decisions_, "shards execute what was decided");
  executed_[shard] = std::max(executed_[shard], number);
  const int64_t slowest = *std::min_element(executed_.begin(), executed_.end());
  while (!frees_.empty() && frees_.begin()->first <= slowest) {
    for (const GradientKey& key : frees_.begin()->second) {
      Expect(room_.erase(key) == 1, "room is freed once");
    }
    frees_.erase(frees_.begin());
  }
}

void InvariantChecker::See(const SendEvaluate& action) {
  Expect(pinned_.contains(action.version.value()),
         "what is evaluated is pinned");
  Expect(pinned_.size() == 1, "one evaluation at a time");
  evaluating_ = action.version;
}

void InvariantChecker::See(const FinishRun& action) {
  finished_ = true;
  failed_ = !action.failure.empty();
}

void InvariantChecker::See(const EndGeneration&) {
  Expect(!finished_, "a run that is over has no further generation");
  Expect(open_.empty(), "every task has ended with its generation");
}

void InvariantChecker::CheckEnd() {
  Expect(finished_, "the run comes to its end");
  Expect(open_.empty(), "every task has ended");
  if (failed_) return;
  Expect(room_.empty(), "all room is free at the end");
  Expect(pinned_.empty(), "all pins are released at the end");
  checkpoints_.CheckEnd(decided_);
}

}  // namespace sluice
