// From ready gradients to a version that every shard makes.
//
// A version is decided in one piece (CommitUpdate): the record, the Commit,
// the verdicts, and the end of all that can no longer be part of an update.
// Nothing is decided in between, so that every shard sums the same gradients
// in the same order, that of their mini-batches.
//
// Under SYNC the run is cut into rounds of K blocks: version v+1 is made of
// those in [round_, round_ + K). With K = 3, and block 4 bad and left out
// (SKIP):
//
//   round_ 0   blocks 0 1 2    version 1
//   round_ 3   blocks 3 5      version 2: K is 3, but only two can still come
//   round_ 6   blocks 6 7 8    version 3, as if block 4 had been good
//
// A round of which nothing is left is passed over (RoundExhausted).
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job/learning_rate.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"
#include "ps_server/coordinator/core/coordinator.h"
#include "ps_server/coordinator/core/counters.h"
#include "ps_server/coordinator/policy/gradient_weights.h"

namespace sluice {
namespace {

// The mean over the samples whose loss is finite; none where there are none.
std::optional<double> LossOf(const std::vector<OpenTask>& entries) {
  double loss = 0;
  int64_t samples = 0;
  for (const OpenTask& entry : entries) {
    if (!std::isfinite(entry.loss)) continue;
    loss += entry.loss * entry.samples;
    samples += entry.samples;
  }
  if (samples == 0) return std::nullopt;
  return loss / samples;
}

}  // namespace

void Coordinator::DecideUpdates() {
  while (phase_ == Phase::kRunning) {
    if (RoundExhausted()) {
      BeginRound(round_ + job_.sync().gradients_per_update());
    } else if (policy_.Due(StillToCome()) && stream_.WindowOpen()) {
      CommitUpdate();
    } else {
      return;
    }
    CheckStop();
  }
}

// Blocks that can still be part of the next update.
int64_t Coordinator::StillToCome() const {
  int64_t blocks = schedule_.available() + tasks_.live();
  if (job_.sync().on_shortage() == proto::SHRINK) {
    for (int partition : unserved_) blocks -= schedule_.available(partition);
  }
  return blocks;
}

void Coordinator::CommitUpdate() {
  const Version version = stream_.decided() + 1;
  std::vector<OpenTask> entries = CloseUpdate(version);
  if (policy_.rules().counts == PolicyRules::Counts::kEveryBatchOfTheVersion) {
    round_ = round_ + job_.sync().gradients_per_update();
  }
  const std::optional<double> loss = LossOf(entries);
  EmitCommit(entries, loss, version);
  const int k = policy_.k();
  // Before the snapshot: who begins there has the K of the next update.
  policy_.Decided(version,
                  loss.value_or(std::numeric_limits<double>::quiet_NaN()));
  MaybeStore();
  for (const OpenTask& entry : entries) {
    SendVerdictTo(entry.task.key, Outcome::kApplied, "", version);
  }
  if (entries.size() != last_update_size_) {
    last_update_size_ = entries.size();
    Say(Announce::Level::kInfo,
        absl::StrCat("event=update_size version=", version.value(),
                     " gradients=", entries.size(), " of ", k));
  }
  EndOutdated();
  if (policy_.rules().counts == PolicyRules::Counts::kEveryBatchOfTheVersion) {
    BeginRound(round_);
  }
}

// Takes the tasks of the next update out of every list and returns them in
// summation order.
std::vector<OpenTask> Coordinator::CloseUpdate(Version version) {
  std::vector<OpenTask> entries;
  const std::vector<GradientKey> keys = policy_.NextUpdate();
  entries.reserve(keys.size());
  for (const GradientKey& key : keys) {
    entries.push_back(tasks_.Close(key));
    policy_.Decided(key);
  }
  std::sort(
      entries.begin(), entries.end(),
      [](const OpenTask& a, const OpenTask& b) { return a.block < b.block; });
  for (const OpenTask& entry : entries) {
    schedule_.Done(entry.block);
    stats_.Ended(entry.task.key.worker, Outcome::kApplied);
    RefreshSupply(entry.block);
  }
  return entries;
}

void Coordinator::EmitCommit(const std::vector<OpenTask>& entries,
                             std::optional<double> loss, Version version) {
  std::vector<WeighedGradient> weighed;
  weighed.reserve(entries.size());
  for (const OpenTask& entry : entries) {
    weighed.push_back(
        {entry.samples, entry.task.batches, version - 1 - entry.base});
  }
  const std::vector<float> weights =
      GradientWeights(weighed, job_.sync().staleness());

  RecordCommit record;
  Commit commit;
  record.version = commit.version = version;
  record.learning_rate = commit.learning_rate =
      LearningRate(learning_rate_, stats_.samples_applied(),
                   static_cast<int>(entries.size()));
  const int64_t before = stats_.samples_applied();
  commit.entries.reserve(entries.size());
  record.entries.reserve(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    const OpenTask& entry = entries[i];
    commit.entries.push_back({entry.task.key, weights[i]});
    record.entries.push_back({entry.task.key, entry.task.first_batch,
                              entry.task.batches, entry.shard_bases, weights[i],
                              entry.samples, entry.loss,
                              now_ - entry.ready_since});
    stats_.Applied(weighed[i].staleness, entry.samples);
  }
  stats_.Updated(loss, commit.learning_rate);
  evaluations_.SamplesApplied(before, stats_.samples_applied());

  if (fold_.has_value()) {
    commit.folded = fold_->taken();
    SLUICE_CHECK(commit.folded == 0 ||
                 static_cast<int>(entries.size()) == fold_->gradients());
  }
  commit.pin = evaluations_.ShouldStart() &&
               members_.Get({Role::kEvaluator, 0}).life == PeerLife::kAlive;
  const bool pin = commit.pin;
  Emit(std::move(record));
  Decide(std::move(commit));
  if (!pin) return;
  evaluations_.Start(version, /*final=*/false, awake_);
  Emit(SendEvaluate{version, /*final=*/false});
}

// Everything that can no longer be part of an update ends.
void Coordinator::EndOutdated() {
  const Version version = stream_.decided();
  const std::string others =
      absl::StrCat("version ", version.value(), " was made of other gradients");
  for (const GradientKey& key : policy_.Outdated(version)) {
    const auto stale = policy_.TooStale(tasks_.Find(key)->base, version);
    EndAndReturn(key, policy_.StaleOutcome(), stale.value_or(others));
  }
  for (const GradientKey& key :
       tasks_.LiveBelow(policy_.RevokeBelow(version))) {
    const auto stale =
        policy_.TooStale(tasks_.Find(key)->task.version, version);
    EndAndReturn(key, Outcome::kCancelled, stale.value_or(others));
  }
}

// Whether nothing of this version's mini-batches is left to be waited for,
// although none of them made an update: all were bad, or belong to partitions
// that nobody serves.
bool Coordinator::RoundExhausted() const {
  return policy_.rules().counts ==
             PolicyRules::Counts::kEveryBatchOfTheVersion &&
         tasks_.open() == 0 && StillToCome() == 0 &&
         members_.living(Role::kWorker) > 0 && !schedule_.finished();
}

void Coordinator::BeginRound(BlockId first) {
  if (policy_.rules().counts != PolicyRules::Counts::kEveryBatchOfTheVersion) {
    return;
  }
  round_ = first;
  const int64_t left_out = schedule_.LeaveOutBelow(round_);
  if (left_out > 0) {
    stats_.Count(&RunCounters::batches_left_out,
                 left_out * job_.sync().local_steps());
    Say(Announce::Level::kWarning,
        absl::StrCat("event=left_out mini_batches=", left_out,
                     " reason=\"nobody serves their partition\""));
  }
  const BlockId end = round_ + job_.sync().gradients_per_update();
  schedule_.LimitTo(end);
  RefreshAllSupplies();
  if (!fold_.has_value()) return;
  std::vector<WeighedGradient> gradients;
  for (BlockId block = round_; block < end && block.value() < schedule_.total();
       block = block + 1) {
    const BatchSchedule::Block what = schedule_.BlockAt(block);
    gradients.push_back({what.samples, what.batches});
  }
  fold_->Begin(round_, gradients);
}

bool Coordinator::Short() const {
  if (members_.living(Role::kWorker) == 0) return true;
  if (policy_.Short(StillToCome())) return true;
  if (job_.sync().on_shortage() == proto::SHRINK) return false;
  return std::any_of(unserved_.begin(), unserved_.end(),
                     [this](int p) { return schedule_.available(p) > 0; });
}

std::string Coordinator::DescribeShortage() const {
  const int living = members_.living(Role::kWorker);
  const int64_t needed = policy_.Needed(StillToCome());
  std::string text = absl::StrCat("an update needs ", needed, " gradients and ",
                                  living, " workers live");
  const std::string missing = members_.Missing(Role::kWorker);
  if (!missing.empty()) absl::StrAppend(&text, "; missing: ", missing);
  return text;
}

void Coordinator::WatchShortage() {
  if (phase_ != Phase::kRunning || !Short()) {
    short_since_.reset();
    return;
  }
  if (short_since_.has_value()) return;
  short_since_ = awake_;
  Say(Announce::Level::kWarning,
      absl::StrCat("event=shortage reason=", LogValue(DescribeShortage())));
}

absl::Status Coordinator::Executed(ShardId shard, int64_t number,
                                   Version version, const std::string& fault,
                                   absl::Time now, Actions* out) {
  const Turn turn(this, now, out);
  if (over()) return absl::OkStatus();
  if (shard.value() < 0 || shard.value() >= job_.cluster().shards()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shard ", shard.value(), ": the job has ",
                     job_.cluster().shards(), ", numbered from 0"));
  }
  if (!fault.empty()) {
    const std::string what = absl::StrCat("shard ", shard.value(), ": ", fault);
    // One that cannot begin with the initial weights would not begin the next
    // generation, either. A checkpoint the next one reads anew, and passes it
    // over where it is damaged.
    const bool hopeless =
        phase_ == Phase::kStarting && begins_.version == Version(0);
    hopeless ? Fail(what) : Recover(what);
    return absl::OkStatus();
  }
  absl::Status status = stream_.Acknowledge(shard, number, version);
  if (absl::IsDataLoss(status)) Recover(std::string(status.message()));
  return status;
}

// What is ready of an update that waits for others makes room for them; half of
// the room at once, since every shard hears of it.
void Coordinator::DecideFold() {
  if (!fold_.has_value()) return;
  const int room = job_.limits().staged_gradients();
  const int64_t admitted = fold_->taken() + room;
  std::vector<CommitEntry> entries = fold_->Take(std::max(1, room / 2));
  if (entries.empty()) return;
  const auto more = static_cast<int64_t>(entries.size());
  Decide(
      Fold{stream_.decided() + 1, fold_->total_weight(), std::move(entries)});
  for (const GradientKey& key : tasks_.AllLive()) {
    const OpenTask& open = *tasks_.Find(key);
    const int64_t behind = *open.task.turn - admitted;
    if (behind < 0 || behind >= more) continue;
    tasks_.SetDeadline(key,
                       awake_ + DeadlineAfter(schedule_.overruns(open.block)));
  }
}

// All tasks that one event ends, as those that an update outdates, are one
// decision.
void Coordinator::DecideDiscard() {
  if (discarded_.empty()) return;
  Decide(Discard{std::exchange(discarded_, {})});
}

void Coordinator::Decide(AnyDecision what) {
  Emit(SendDecision{stream_.Append(std::move(what), awake_)});
}

}  // namespace sluice
