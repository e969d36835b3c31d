#ifndef SLUICE_PS_SERVER_DECISIONS_DECISION_STREAM_H_
#define SLUICE_PS_SERVER_DECISIONS_DECISION_STREAM_H_

#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "ps_server/decisions/decision.h"

namespace sluice {

// The one numbered stream of decisions that every shard executes in order, and
// what follows from how far the slowest shard is: whether another version may
// be decided (the commit window), and how much room for gradients is left.
//
// Room for one gradient is taken with its task and comes back when every shard
// has executed the Commit or the Discard that names it.
//
// Not thread-safe: call from the coordinator.
class DecisionStream {
 public:
  // `room`: gradients a shard holds at once. `window`: versions that the
  // slowest shard may be behind. REQUIRES: all are at least 1.
  DecisionStream(int shards, int room, int window);

  // Numbers the decision, from 1. REQUIRES: a Commit makes decided() + 1.
  Decision Append(AnyDecision what, absl::Time now);

  // `shard` has executed everything up to `number` and stands at `version`.
  // Repeats and older acknowledgements change nothing. kInvalidArgument: a
  // number that was never sent; kDataLoss: the version is behind.
  absl::Status Acknowledge(ShardId shard, int64_t number, Version version);

  bool HasRoom() const { return room_taken_ < room_; }
  // REQUIRES: HasRoom().
  void TakeRoom();

  // Whether one more version may be decided now.
  bool WindowOpen() const;
  // Versions decided, and executed by every shard.
  Version decided() const { return decided_; }
  Version executed() const { return executed_; }

  // The one `shard` stood at when it last acknowledged.
  Version VersionOf(ShardId shard) const {
    return shards_[shard.value()].version;
  }

  // Up to which number every shard has executed.
  int64_t acknowledged() const { return *acknowledged_.begin(); }
  bool idle() const { return acknowledged() == last_number_; }
  // Since when the oldest unexecuted decision waits, and for whom.
  // REQUIRES: !idle().
  absl::Time waiting_since() const { return pending_.front().sent; }
  ShardId slowest() const;

 private:
  struct Pending {
    int64_t number = 0;
    int frees = 0;    // Gradients whose room comes back.
    Version version;  // Decided up to here.
    absl::Time sent;
  };

  // Constant after construction.
  const int room_;
  const int window_;

  int64_t last_number_ = 0;
  Version decided_;
  Version executed_;
  int room_taken_ = 0;
  std::deque<Pending> pending_;  // Not yet executed by every shard.
  struct Shard {
    int64_t acknowledged = 0;
    Version version;
  };
  std::vector<Shard> shards_;
  std::multiset<int64_t> acknowledged_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_DECISIONS_DECISION_STREAM_H_
