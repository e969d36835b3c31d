#include "ps_server/coordinator/testing/checkpoint_checker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ps_server/coordinator/policy/batch_schedule.h"
#include "ps_server/coordinator/versions/checkpoints.h"

namespace sluice {
namespace {

bool SamePart(const StoredPart& a, const StoredPart& b) {
  return a.file == b.file && a.begin == b.begin && a.end == b.end &&
         a.bytes == b.bytes && a.header_checksum == b.header_checksum;
}

bool SameCounts(const GradientCounts& a, const GradientCounts& b) {
  return a.applied == b.applied && a.cancelled == b.cancelled &&
         a.dropped == b.dropped && a.rejected == b.rejected && a.lost == b.lost;
}

std::string Describe(const GradientCounts& counts) {
  return absl::StrCat(counts.applied, " applied, ", counts.cancelled,
                      " cancelled, ", counts.dropped, " dropped, ",
                      counts.rejected, " rejected, ", counts.lost, " lost");
}

}  // namespace

CheckpointChecker::CheckpointChecker(const CoordinatorOptions& options)
    : options_(options),
      blocks_(JobSchedule(options.job, options.train_samples).total()),
      kept_(options.earlier_checkpoints.there.begin(),
            options.earlier_checkpoints.there.end()) {
  // What may be whole, and was not read, is nobody's to remove.
  const EarlierCheckpoints& found = options.earlier_checkpoints;
  std::erase_if(kept_, [&](const auto& id) {
    const bool damaged = std::ranges::count(found.damaged, id) > 0;
    if (damaged) damaged_.insert(id);
    return damaged || id > found.read_whole;
  });
  const ResumePoint point = options_.resume.value_or(ResumePoint());
  const TrainingSnapshot& snapshot = point.snapshot;
  low_water_mark_ = snapshot.schedule.low_water_mark;
  done_above_.insert(snapshot.schedule.exceptions.begin(),
                     snapshot.schedule.exceptions.end());
  round_ = snapshot.round;
  samples_applied_ = snapshot.totals.counters.samples_applied;
  gradients_ = gradients_of_version_ = snapshot.totals.counters;
}

void CheckpointChecker::Expect(bool holds, const std::string& rule) {
  if (!holds && violation_.empty()) violation_ = rule;
}

// ---- The model of what is done. ----

void CheckpointChecker::Done(BlockId block) {
  done_above_.insert(block);
  while (done_above_.erase(low_water_mark_) == 1) ++low_water_mark_;
}

void CheckpointChecker::Count(Outcome outcome) {
  switch (outcome) {
    case Outcome::kApplied:
      ++gradients_.applied;
      return;
    case Outcome::kCancelled:
      ++gradients_.cancelled;
      return;
    case Outcome::kDropped:
      ++gradients_.dropped;
      return;
    case Outcome::kRejected:
      ++gradients_.rejected;
      return;
    case Outcome::kLost:
      ++gradients_.lost;
      return;
  }
}

void CheckpointChecker::See(const RecordTask& action) {
  block_of_[action.task.key] = BlockId(action.task.first_batch.value() /
                                       options_.job.sync().local_steps());
}

// A mini-batch whose gradient was bad twice is left out.
void CheckpointChecker::See(const RecordEnd& action) {
  Count(action.outcome);
  const auto it = block_of_.find(action.key);
  if (it == block_of_.end()) return;
  if (action.outcome == Outcome::kRejected && ++rejections_[it->second] == 2) {
    Done(it->second);
  }
  block_of_.erase(it);
}

void CheckpointChecker::See(const RecordCommit& action) {
  for (const RecordCommit::Entry& entry : action.entries) {
    const BlockId block(entry.first_batch.value() /
                        options_.job.sync().local_steps());
    const int64_t p = options_.job.sync().gradients_per_update();
    round_ = BlockId((block.value() / p + 1) * p);
    Done(block);
    Count(Outcome::kApplied);
    samples_applied_ += entry.samples;
    block_of_.erase(entry.key);
  }
  gradients_of_version_ = gradients_;
}

// ---- When versions are stored. ----

void CheckpointChecker::See(const Commit& commit) {
  Expect(!due_.has_value(), "a version that is due is stored at once");
  just_committed_ = true;
  const int64_t every = options_.job.checkpoint().every_updates();
  if (every > 0 && commit.version.value() % every == 0 &&
      !running_.has_value()) {
    due_ = commit.version;
  }
}

void CheckpointChecker::See(const Store& store, Version decided) {
  Expect(StoresVersions(options_.job), "only jobs with checkpoints store");
  Expect(store.version == decided, "the newest version is stored");
  Expect(!running_.has_value(), "one checkpoint is written at a time");
  Expect(store.version > last_begun_, "a version is stored once");
  due_.reset();
  last_begun_ = store.version;
  running_ = Running{store.version, {}, false};
  running_->parts.resize(options_.job.cluster().shards());
  Expected& expected = expected_[store.version];
  expected.schedule.low_water_mark = low_water_mark_;
  expected.schedule.exceptions.assign(done_above_.begin(), done_above_.end());
  if (options_.job.sync().policy() == proto::SYNC && just_committed_) {
    expected.round = std::min(round_, BlockId(blocks_));
  }
  expected.samples_applied = samples_applied_;
  expected.gradients = gradients_of_version_;
}

void CheckpointChecker::Stored(int64_t shard, Version version,
                               const StoredPart& part) {
  if (!running_.has_value() || running_->version != version) {
    if (Keeps(version)) return;
    ++late_parts_;
    to_remove_.insert({options_.generation, version});
    return;
  }
  std::optional<StoredPart>& place = running_->parts[shard];
  if (place.has_value()) return;
  place = part;
  bool failed = false;
  for (const std::optional<StoredPart>& known : running_->parts) {
    if (!known.has_value()) return;
    failed = failed || !known->error.empty();
  }
  if (failed) GiveUp();
}

void CheckpointChecker::See(const StoreManifest& action) {
  Expect(action.generation == options_.generation,
         "manifests are of the generation");
  if (!running_.has_value() || running_->version != action.version) {
    return Expect(false, "a manifest is made of what is being written");
  }
  Expect(!running_->manifest, "a manifest is made once");
  running_->manifest = true;
  bool parts = action.parts.size() == running_->parts.size();
  for (size_t s = 0; parts && s < action.parts.size(); ++s) {
    const std::optional<StoredPart>& stored = running_->parts[s];
    parts = stored.has_value() && stored->error.empty() &&
            SamePart(*stored, action.parts[s]);
  }
  Expect(parts, "a manifest has the parts that the shards have stored");
  CheckSnapshot(action);
}

void CheckpointChecker::CheckSnapshot(const StoreManifest& action) {
  const TrainingSnapshot& snapshot = *action.snapshot;
  const Expected& expected = expected_[action.version];
  const std::string name =
      absl::StrCat("the snapshot of version ", action.version.value(), ": ");
  // What SYNC leaves out of a partition that nobody serves is not modelled.
  if (options_.job.sync().policy() != proto::SYNC ||
      !(options_.job.data().sharding() == proto::Data::STATIC)) {
    Expect(snapshot.schedule == expected.schedule,
           absl::StrCat(name, "done is what is in its updates: below ",
                        snapshot.schedule.low_water_mark.value(), " and ",
                        snapshot.schedule.exceptions.size(), ", expected ",
                        expected.schedule.low_water_mark.value(), " and ",
                        expected.schedule.exceptions.size()));
    Expect(!expected.round.has_value() || snapshot.round == *expected.round,
           absl::StrCat(name, "SYNC goes on with ", snapshot.round.value(),
                        ", expected ",
                        expected.round.value_or(BlockId()).value()));
  }
  Expect(snapshot.totals.counters.samples_applied == expected.samples_applied,
         absl::StrCat(name, snapshot.totals.counters.samples_applied,
                      " samples applied, expected ", expected.samples_applied));
  Expect(SameCounts(snapshot.totals.counters, expected.gradients),
         absl::StrCat(name, Describe(snapshot.totals.counters), ", expected ",
                      Describe(expected.gradients)));
}

void CheckpointChecker::ManifestWritten(Version version,
                                        const std::string& error) {
  if (!running_.has_value() || running_->version != version) {
    if (!Keeps(version)) to_remove_.insert({options_.generation, version});
    return;
  }
  if (!error.empty()) return GiveUp();
  running_.reset();
  ++written_;
  to_remove_.merge(std::exchange(damaged_, {}));
  kept_.emplace_back(options_.generation, version);
  while (static_cast<int>(kept_.size()) > options_.job.checkpoint().keep()) {
    to_remove_.insert(kept_.front());
    kept_.pop_front();
  }
}

void CheckpointChecker::GiveUp() {
  to_remove_.insert({options_.generation, running_->version});
  running_.reset();
  ++failed_;
}

void CheckpointChecker::See(const RemoveStored& action) {
  // Nobody says that a deadline has passed.
  if (running_.has_value() && action.generation == options_.generation &&
      action.version == running_->version) {
    ++overdue_;
    GiveUp();
  }
  Expect(to_remove_.erase({action.generation, action.version}) == 1,
         absl::StrCat("version ", action.version.value(), " of generation ",
                      action.generation.value(),
                      ": only what is of no more use is removed"));
}

void CheckpointChecker::CheckSettled() {
  Expect(!due_.has_value(), "a version that is due is stored at once");
  Expect(to_remove_.empty(), "what is of no more use is removed");
  if (running_.has_value() && !running_->manifest) {
    Expect(std::ranges::any_of(running_->parts,
                               [](const auto& p) { return !p.has_value(); }),
           "a manifest is made when all parts are there");
  }
  just_committed_ = false;
}

bool CheckpointChecker::Keeps(Version version) const {
  return std::ranges::count(kept_, std::pair(options_.generation, version)) > 0;
}

const CheckpointChecker::Expected* CheckpointChecker::ExpectedAt(
    Version version) const {
  const auto it = expected_.find(version);
  return it == expected_.end() ? nullptr : &it->second;
}

void CheckpointChecker::CheckEnd(Version decided) {
  if (!StoresVersions(options_.job)) return;
  Expect(!running_.has_value(), "a run waits for its last checkpoint");
  const Version begun = options_.resume.value_or(ResumePoint()).version;
  Expect(decided == begun || decided == last_begun_,
         "the last version is stored");
}

}  // namespace sluice
