// `kept_` has the older before the newer, those of earlier generations first:
// what this generation writes has a larger generation, and goes to the end. So
// the front is always the one to remove.
//
// Every 4 updates, keep 2, two shards:
//
//   Decided(4)         kStart
//   Reported(0, 4)     false
//   Reported(1, 4)     true: all parts are there; Written() keeps 4
//   Decided(8)         kStart
//   Decided(12)        kLate: 8 is not written yet; 12 never will be
//   Written()          keeps 4, 8
//   Decided(16) ...    Written() keeps 8, 16 and returns 4, to be removed
//
// What an earlier generation left damaged takes no place among those kept:
//
//   there: 4, 8, and 12 without a manifest; 8 was read whole
//   Written()          of 12 anew: keeps 8, 12 and returns the older 12, and 4
//
// A late one does not wait for its turn: what it would store is soon replaced
// by the next, and two at once would hold two versions in memory.
#include "ps_server/coordinator/versions/checkpoints.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice {

Checkpoints::Checkpoints(const proto::Checkpoint& options,
                         EarlierCheckpoints earlier, Generation generation,
                         int shards, absl::Time now)
    : options_(options),
      earlier_(std::move(earlier)),
      generation_(generation),
      shards_(shards),
      next_(now + absl::Seconds(options_.every_s())) {
  std::copy_if(earlier_.there.begin(), earlier_.there.end(),
               std::back_inserter(kept_),
               [this](const Id& id) { return MayGo(id); });
  std::copy_if(earlier_.there.begin(), earlier_.there.end(),
               std::back_inserter(damaged_),
               [this](const Id& id) { return Damaged(id); });
}

// One of an earlier generation, in its turn.
bool Checkpoints::MayGo(const Id& id) const {
  return id <= earlier_.read_whole && !Damaged(id);
}

bool Checkpoints::Damaged(const Id& id) const {
  return std::find(earlier_.damaged.begin(), earlier_.damaged.end(), id) !=
         earlier_.damaged.end();
}

Checkpoints::Due Checkpoints::Decided(Version version, absl::Time now) {
  const bool by_time = options_.every_s() > 0 && now >= next_;
  const bool by_updates = options_.every_updates() > 0 &&
                          version.value() % options_.every_updates() == 0;
  if (!by_time && !by_updates && !requested_) return Due::kNo;
  next_ = now + absl::Seconds(options_.every_s());
  if (running_.has_value()) {
    ++counters_.late;
    ++running_->late;
    return Due::kLate;
  }
  Start(version, now);
  return Due::kStart;
}

void Checkpoints::Start(Version version, absl::Time now) {
  SLUICE_CHECK(!running_.has_value());
  running_ = Running{version, now, {}, 0};
  running_->parts.resize(shards_);
  last_begun_ = version;
  requested_ = false;
}

std::vector<ShardId> Checkpoints::Missing() const {
  std::vector<ShardId> missing;
  if (!running_.has_value()) return missing;
  for (size_t i = 0; i < running_->parts.size(); ++i) {
    if (!running_->parts[i].has_value()) {
      missing.push_back(ShardId(static_cast<int64_t>(i)));
    }
  }
  return missing;
}

bool Checkpoints::Reported(ShardId shard, Version version, StoredPart part) {
  if (!running_.has_value() || running_->version != version) return false;
  std::optional<StoredPart>& place = running_->parts[shard.value()];
  if (place.has_value()) return false;
  place = std::move(part);
  return Missing().empty();
}

std::string Checkpoints::Error() const {
  for (size_t i = 0; running_.has_value() && i < running_->parts.size(); ++i) {
    const std::optional<StoredPart>& part = running_->parts[i];
    if (part.has_value() && !part->error.empty()) {
      return absl::StrCat("shard ", i, ": ", part->error);
    }
  }
  return "";
}

std::vector<RemoveStored> Checkpoints::Written() {
  kept_.emplace_back(generation_, running_->version);
  running_.reset();
  ++counters_.written;
  std::vector<RemoveStored> old;
  for (const Id& id : std::exchange(damaged_, {})) {
    old.push_back({id.first, id.second});
  }
  for (; static_cast<int>(kept_.size()) > options_.keep(); kept_.pop_front()) {
    old.push_back({kept_.front().first, kept_.front().second});
  }
  return old;
}

void Checkpoints::Failed(const std::string& why) {
  running_.reset();
  ++counters_.failed;
  last_error_ = why;
}

bool Checkpoints::Keeps(Version version) const {
  return std::find(kept_.begin(), kept_.end(),
                   std::pair(generation_, version)) != kept_.end();
}

std::pair<Generation, Version> Checkpoints::oldest() const {
  return kept_.empty() ? Id{} : kept_.front();
}

std::optional<Version> Checkpoints::newest() const {
  if (kept_.empty() || kept_.back().first != generation_) return std::nullopt;
  return kept_.back().second;
}

}  // namespace sluice
