// Which versions are stored, and what becomes of that. Whatever does, training
// goes on.
//
// One version is stored at a time (checkpoints_.running()), and snapshot_ is
// the coordinator's own part of it, taken as the version is decided:
//
//   version 8 is decided    Store to every shard, behind its Commit
//   both shards: Stored     StoreManifest, with the parts and the snapshot
//   ManifestWritten         checkpoint 8 is whole; RemoveStored of the oldest
//
// A checkpoint counts from its manifest on. One that is given up before that
// is removed, and so is what comes late of it.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/telemetry/log_value.h"
#include "ps_server/coordinator/core/coordinator.h"

namespace sluice {

// The newest version has just been decided.
void Coordinator::MaybeStore() {
  const Version version = stream_.decided();
  switch (checkpoints_.Decided(version, awake_)) {
    case Checkpoints::Due::kNo:
      return;
    case Checkpoints::Due::kStart:
      return StoreNewest();
    case Checkpoints::Due::kLate:
      break;
  }
  // Once for each that takes too long, however often another falls due.
  if (checkpoints_.running()->late > 1) return;
  Say(Announce::Level::kWarning,
      absl::StrCat(
          "event=checkpoint_late version=", version.value(),
          " reason=\"version ", checkpoints_.running()->version.value(),
          " is still being written: waiting for ", StoringWaitsFor(), "\""));
}

absl::StatusOr<Version> Coordinator::RequestCheckpoint(absl::Time now,
                                                       Actions* out) {
  const Turn turn(this, now, out);
  if (!StoresVersions(job_)) {
    return absl::FailedPreconditionError(
        "checkpoint: the job has none, so the shards have no folder to write "
        "to");
  }
  if (phase_ == Phase::kRecovering) {
    return absl::UnavailableError(
        "a generation of the run is over, and the next one has not begun");
  }
  if (phase_ != Phase::kRunning) {
    return absl::FailedPreconditionError(
        absl::StrCat("no training is under way: it ",
                     phase_ == Phase::kStarting ? "has not begun" : "is over"));
  }
  if (checkpoints_.running().has_value()) {
    return absl::UnavailableError(absl::StrCat(
        "version ", checkpoints_.running()->version.value(),
        " is still being written: waiting for ", StoringWaitsFor()));
  }
  checkpoints_.Request();
  Version next = stream_.decided();
  return ++next;
}

// Nothing may be decided between the running checkpoint's version and this.
void Coordinator::StoreNewest() {
  snapshot_ = std::make_shared<const TrainingSnapshot>(TakeSnapshot(now_));
  Decide(Store{checkpoints_.running()->version, checkpoints_.oldest()});
}

std::string Coordinator::StoringWaitsFor() const {
  const std::vector<ShardId> missing = checkpoints_.Missing();
  if (missing.empty()) return "the coordinator to write the manifest";
  return absl::StrJoin(missing, ", ", [](std::string* text, ShardId shard) {
    absl::StrAppend(text, "shard ", shard.value());
  });
}

absl::Status Coordinator::Stored(ShardId shard, Version version,
                                 StoredPart part, absl::Time now,
                                 Actions* out) {
  const Turn turn(this, now, out);
  if (over()) return absl::OkStatus();
  if (shard.value() < 0 || shard.value() >= job_.cluster().shards()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shard ", shard.value(), ": the job has ",
                     job_.cluster().shards(), ", numbered from 0"));
  }
  if (!checkpoints_.Reported(shard, version, std::move(part))) {
    DropIfGivenUp(version);
    return absl::OkStatus();
  }
  // Given up only now that nobody writes to its folder any more.
  const std::string error = checkpoints_.Error();
  if (!error.empty()) {
    GiveUpStoring(error);
    return absl::OkStatus();
  }
  StoreManifest manifest{options_.generation, version, {}, snapshot_};
  for (const auto& stored : checkpoints_.running()->parts) {
    manifest.parts.push_back(*stored);
  }
  Emit(std::move(manifest));
  return absl::OkStatus();
}

void Coordinator::ManifestWritten(Version version, const std::string& error,
                                  absl::Time now, Actions* out) {
  const Turn turn(this, now, out);
  if (over()) return;
  const auto& running = checkpoints_.running();
  if (!running.has_value() || running->version != version) {
    return DropIfGivenUp(version);
  }
  if (!error.empty()) return GiveUpStoring(error);
  Say(Announce::Level::kInfo,
      absl::StrCat("event=checkpoint version=", version.value(), " seconds=",
                   absl::ToDoubleSeconds(awake_ - running->since)));
  for (const RemoveStored& old : checkpoints_.Written()) Emit(old);
}

// What comes late of one that was given up would lie there for good.
void Coordinator::DropIfGivenUp(Version version) {
  const auto& running = checkpoints_.running();
  if (running.has_value() && running->version == version) return;  // A repeat.
  if (checkpoints_.Keeps(version)) return;
  Emit(RemoveStored{options_.generation, version});
}

void Coordinator::GiveUpStoring(const std::string& why) {
  const Version version = checkpoints_.running()->version;
  Say(Announce::Level::kError,
      absl::StrCat("event=checkpoint_failed version=", version.value(),
                   " reason=", LogValue(why)));
  Emit(RemoveStored{options_.generation, version});
  checkpoints_.Failed(absl::StrCat("version ", version.value(), ": ", why));
}

void Coordinator::CheckStoringDeadline() {
  const auto& running = checkpoints_.running();
  if (!running.has_value() ||
      awake_ - running->since <
          absl::Seconds(job_.limits().task_deadline_s())) {
    return;
  }
  GiveUpStoring(absl::StrCat(
      "waited ",
      absl::FormatDuration(absl::Seconds(job_.limits().task_deadline_s())),
      " for ", StoringWaitsFor()));
}

// Has the run's last version stored; true when nothing of that is left to be
// waited for. One that failed is not tried again: what there was of it may be
// being removed.
bool Coordinator::LastVersionStored() {
  if (!StoresVersions(job_)) return true;
  if (checkpoints_.running().has_value()) return false;
  const Version last = stream_.decided();
  if (last == begins_.version || last == checkpoints_.last_begun()) return true;
  checkpoints_.Start(last, awake_);
  StoreNewest();
  return false;
}

std::optional<CheckpointState> Coordinator::StateOfCheckpoints() const {
  if (!StoresVersions(job_)) return std::nullopt;
  CheckpointState state;
  state.newest = checkpoints_.newest();
  state.counters = checkpoints_.counters();
  state.last_error = checkpoints_.last_error();
  if (checkpoints_.running().has_value()) {
    state.writing = checkpoints_.running()->version;
    state.writing_since = checkpoints_.running()->since + clock_.paused();
  }
  return state;
}

}  // namespace sluice
