// How far the shards are, and what that leaves room for.
//
// What holds between calls:
//
//  - Numbers have no gap, and `pending_` holds the decisions that some shard
//    has not acknowledged, in order: pending_[i].number is that of the front
//    plus i.
//  - `acknowledged_` holds one number per shard; every shard has executed what
//    is up to the smallest.
//  - `room_taken_` counts the tasks whose Commit or Discard some shard has not
//    executed, or that have neither. Room comes back with the acknowledgement,
//    not with the decision: until then the slowest shard may hold the slice.
//    So a shard never lacks room for a gradient that was granted.
//  - The coordinator asks WindowOpen() before each Commit, so that decided_ is
//    at most `window_` above executed_.
//
// Two shards that have both acknowledged the Restore (number 1), room for 3,
// all of it taken by the tasks a, b and c:
//
//   Append(Commit v1 of a, b)   number 2    decided 1, executed 0, taken 3
//   Append(Discard c)           number 3                           taken 3
//   shard 0 acknowledges 3      nothing: shard 1 has executed 1 only
//   shard 1 acknowledges 2      executed 1, taken 1: c's slice may be there
//   shard 1 acknowledges 3      taken 0, idle
#include "ps_server/decisions/decision_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice {

DecisionStream::DecisionStream(int shards, int room, int window)
    : room_(room), window_(window), shards_(shards) {
  SLUICE_CHECK(shards >= 1 && room >= 1 && window >= 1);
  for (int s = 0; s < shards; ++s) acknowledged_.insert(0);
}

Decision DecisionStream::Append(AnyDecision what, absl::Time now) {
  Pending pending;
  pending.number = ++last_number_;
  pending.sent = now;
  if (const auto* restore = std::get_if<Restore>(&what)) {
    decided_ = executed_ = restore->version;
  } else if (const auto* commit = std::get_if<Commit>(&what)) {
    SLUICE_CHECK(commit->version == decided_ + 1);
    decided_ = commit->version;
    pending.frees = static_cast<int>(commit->entries.size());
  } else if (const auto* discard = std::get_if<Discard>(&what)) {
    pending.frees = static_cast<int>(discard->keys.size());
  }
  pending.version = decided_;
  pending_.push_back(pending);
  return Decision{last_number_, std::move(what)};
}

absl::Status DecisionStream::Acknowledge(ShardId shard, int64_t number,
                                         Version version) {
  Shard& mine = shards_[shard.value()];
  if (number > last_number_) {
    return absl::InvalidArgumentError(
        absl::StrCat("shard ", shard.value(), ": acknowledges decision ",
                     number, ", the last one sent is ", last_number_));
  }
  if (number <= mine.acknowledged) return absl::OkStatus();
  // Numbers are consecutive, so that the position follows from the number.
  const Version expected = pending_[number - pending_.front().number].version;
  if (version < expected) {
    return absl::DataLossError(absl::StrCat(
        "shard ", shard.value(), ": stands at version ", version.value(),
        " after decision ", number, ", expected ", expected.value()));
  }
  acknowledged_.erase(acknowledged_.find(mine.acknowledged));
  acknowledged_.insert(number);
  mine = {number, version};
  while (!pending_.empty() && pending_.front().number <= acknowledged()) {
    room_taken_ -= pending_.front().frees;
    executed_ = pending_.front().version;
    pending_.pop_front();
  }
  return absl::OkStatus();
}

void DecisionStream::TakeRoom() {
  SLUICE_CHECK(HasRoom());
  ++room_taken_;
}

bool DecisionStream::WindowOpen() const {
  return decided_ - executed_ < window_;
}

ShardId DecisionStream::slowest() const {
  const auto it = std::min_element(shards_.begin(), shards_.end(),
                                   [](const Shard& a, const Shard& b) {
                                     return a.acknowledged < b.acknowledged;
                                   });
  return ShardId(it - shards_.begin());
}

}  // namespace sluice
