#include "cli/chaos/director.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

// How many times the patience a run may go without a new best version.
constexpr int kRecoveries = 3;

template <typename Peers>
bool IsAlive(const Peers& peers, int64_t id) {
  for (const auto& peer : peers) {
    if (peer.id() != id) continue;
    return peer.state() != "suspect" && peer.state() != "dead" &&
           peer.state() != "cut off" && peer.state() != "left" &&
           peer.state() != "missing";
  }
  return false;
}

// Whether the coordinator sees the part alive. It does not know the evaluator.
bool IsAlive(const Act& act, const proto::JobStatus& status) {
  switch (act.part) {
    case Part::kLead:
    case Part::kShard:
      return IsAlive(status.shard(), act.number);
    case Part::kWorker:
      return IsAlive(status.worker(), act.number);
    case Part::kMember:
      return IsAlive(status.worker(), WorkerOf(act.number));
    case Part::kEvaluator:
      return true;
  }
  return false;
}

int64_t NewestCheckpoint(const proto::JobStatus& status) {
  return status.checkpoint().has_newest_version()
             ? status.checkpoint().newest_version()
             : -1;
}

}  // namespace

Director::Director(DirectorOptions options) : options_(std::move(options)) {}

std::string Director::Stamp(absl::Time now) const {
  return absl::StrFormat("%6.1f s  ", absl::ToDoubleSeconds(now - *begun_));
}

Disturbance Director::OnLook(const RunLook& look) {
  Disturbance out;
  if (!begun_.has_value()) {
    begun_ = moved_ = advanced_ = updated_ = look.now;
  }
  WatchParts(look);
  Watch(look);
  EndSpells(look.now, &out);
  if (done_.size() < options_.acts.size()) {
    const Act& act = options_.acts[done_.size()];
    if (Due(act, look)) Do(act, look, &out);
  }
  if (hang_.empty()) hang_ = Hang(look);
  out.failure = hang_;
  return out;
}

// A part whose process is gone, or replaced by another, has ended.
void Director::WatchParts(const RunLook& look) {
  const bool is_on =
      look.status != nullptr && look.status->phase() == "running";
  for (auto it = seen_.begin(); it != seen_.end();) {
    const auto& [name, pid] = *it;
    const auto now = look.running.find(name);
    if (now != look.running.end() && now->second == pid) {
      ++it;
      continue;
    }
    // A process that is gone needs no SIGCONT. Links and storage are healed all
    // the same.
    const auto spell = spells_.find(name);
    if (spell != spells_.end() && spell->second.kind == ActKind::kStop) {
      spells_.erase(spell);
    }
    const bool asked = killed_.erase(name) > 0;
    // The status was asked for after the parts: if the run was still on, the
    // part did not end with it. Else a later look decides.
    if (!asked && !is_on) {
      ++it;
      continue;
    }
    if (!asked) ++unasked_ends_;
    it = seen_.erase(it);
  }
  seen_.insert(look.running.begin(), look.running.end());
}

void Director::Watch(const RunLook& look) {
  if (look.status == nullptr) return;
  const proto::JobStatus& status = *look.status;
  if (status.phase() != phase_) {
    phase_ = status.phase();
    moved_ = std::max(moved_, look.now);
    // Only a phase's first time counts: to go from recovery to recovery leads
    // nowhere.
    if (phases_.insert(phase_).second) Advance(look.now);
  }
  WatchCheckpoints(status);
  if (status.generation() != generation_) {
    generation_ = status.generation();
    version_ = status.version();
  }
  if (status.version() > version_) {
    if (version_ > 0) {
      longest_wait_ = std::max(longest_wait_, look.now - updated_);
    }
    version_ = status.version();
    moved_ = std::max(moved_, look.now);
    updated_ = std::max(updated_, look.now);
  }
  if (status.version() > best_) {
    best_ = status.version();
    Advance(look.now);
  }
}

// Within a lineage versions only grow. So the newest whole checkpoint is the
// largest version that ever was one, and no generation may begin before it.
void Director::WatchCheckpoints(const proto::JobStatus& status) {
  if (generation_ > 0 && status.generation() > generation_) {
    const int64_t restored = status.recovery().restored_version();
    if (restored < whole_ && rolled_back_.empty()) {
      rolled_back_ = absl::StrCat("generation ", status.generation(),
                                  " went back to version ", restored,
                                  "; version ", whole_, " was whole");
    }
    whole_ = restored;
  }
  whole_ = std::max(whole_, NewestCheckpoint(status));
}

void Director::Advance(absl::Time now) {
  moved_ = std::max(moved_, now);
  advanced_ = std::max(advanced_, now);
}

void Director::EndSpells(absl::Time now, Disturbance* out) {
  for (auto it = spells_.begin(); it != spells_.end();) {
    const auto& [name, spell] = *it;
    if (now < spell.until) {
      ++it;
      continue;
    }
    if (spell.kind == ActKind::kStop) {
      out->signals.push_back({name, SIGCONT});
      out->say.push_back(absl::StrCat(Stamp(now), "continue ", name));
    } else if (spell.kind == ActKind::kStorage) {
      out->storage.push_back({spell.number, StorageFault::kNone});
      out->say.push_back(absl::StrCat(Stamp(now), "heal storage of ", name));
    } else {
      out->heal.push_back(name);
      out->say.push_back(absl::StrCat(Stamp(now), "heal ", name));
    }
    it = spells_.erase(it);
  }
}

bool Director::CheckpointSinceMark(const proto::JobStatus& status) const {
  if (!mark_.has_value()) return true;
  const int64_t newest = NewestCheckpoint(status);
  return status.generation() > mark_->generation ? newest >= 0
                                                 : newest > mark_->newest;
}

bool Director::Due(const Act& act, const RunLook& look) const {
  if (look.status == nullptr || look.status->phase() != "running") return false;
  const std::string name = NameOfPart(act.part, act.number);
  return look.status->version() >= act.at_version &&
         (!act.after_checkpoint || CheckpointSinceMark(*look.status)) &&
         look.running.contains(name) && !spells_.contains(name) &&
         !killed_.contains(name) && IsAlive(act, *look.status);
}

void Director::Do(const Act& act, const RunLook& look, Disturbance* out) {
  const proto::JobStatus& status = *look.status;
  const std::string name = NameOfPart(act.part, act.number);
  const absl::Duration lasts = act.leases * options_.lease;
  switch (act.kind) {
    case ActKind::kKill:
      out->signals.push_back({name, SIGKILL});
      killed_.insert(name);
      break;
    case ActKind::kStop:
      out->signals.push_back({name, SIGSTOP});
      break;
    case ActKind::kCut:
      out->cut.push_back(name);
      break;
    case ActKind::kStorage:
      out->storage.push_back({act.number, act.fault});
      break;
  }
  if (act.kind != ActKind::kKill) {
    spells_[name] = {act.kind, look.now + lasts, act.number};
    Advance(look.now + lasts);
    updated_ = std::max(updated_, look.now + lasts);
  }
  if (OnServer(act)) mark_ = {status.generation(), NewestCheckpoint(status)};
  out->say.push_back(absl::StrCat(Stamp(look.now), "version ", status.version(),
                                  " of generation ", status.generation(), ": ",
                                  Describe(act)));
  done_.push_back({look.now - *begun_, status.generation(), status.version()});
}

std::string Director::Hang(const RunLook& look) const {
  // The coordinator has its own limit for the start.
  if (!phases_.contains("running")) return "";
  const absl::Duration waited = look.now - moved_;
  const absl::Duration in_vain = look.now - advanced_;
  std::string what;
  if (waited >= options_.patience) {
    what = absl::StrCat("no update for ", absl::FormatDuration(waited),
                        " after version ", version_, " of generation ",
                        generation_);
  } else if (in_vain >= kRecoveries * options_.patience) {
    what = absl::StrCat("no version beyond ", best_, " for ",
                        absl::FormatDuration(in_vain),
                        ", by now in generation ", generation_);
  } else {
    return "";
  }
  if (look.status == nullptr) {
    what += "; the coordinator does not answer";
  } else if (!look.status->waiting_for().empty()) {
    absl::StrAppend(&what, "; it waits for ", look.status->waiting_for());
  } else {
    absl::StrAppend(&what, "; it is ", look.status->phase());
  }
  if (!done_.empty()) {
    absl::StrAppend(
        &what, "; the last act: ", Describe(options_.acts[done_.size() - 1]));
  }
  return what;
}

}  // namespace sluice
