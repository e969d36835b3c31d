#ifndef SLUICE_WORKER_EXCHANGE_SHARD_CALLS_H_
#define SLUICE_WORKER_EXCHANGE_SHARD_CALLS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/exchange/retry_policy.h"

namespace sluice {

// How long calls to shards are waited for.
struct CallLimits {
  // Nothing of a call that is under way moves: it is given up and repeated
  // (limits.transfer_stall_s).
  absl::Duration stall = absl::Seconds(30);
  // Nothing is heard of a shard: its call fails (limits.partition_timeout_s).
  absl::Duration partition = absl::Seconds(600);
};

// A shard that calls do not reach: "shard 1 at host:port".
struct UnreachedShard {
  std::string name;
  absl::Time since;
};
// Of two, the one that has not been reached for longer.
std::optional<UnreachedShard> LongerUnreached(std::optional<UnreachedShard> a,
                                              std::optional<UnreachedShard> b);

// What has become of one call to each shard: which have succeeded, which have
// stalled, which wait to be repeated and when, and the first that failed for
// good. Pure: the time comes in.
//
// A call is under way from Asked, or Progressed, until it has Rested or Ended.
// It has stalled when it has been under way for so long without Moved or
// Progressed: 600 s for a slow link and 31 s of silence are not the same.
//
// Not thread-safe: call under the owner's lock.
class ShardCalls {
 public:
  // One call to each of `names` ("shard 1 at host:port") runs and rests.
  ShardCalls(std::vector<std::string> names, CallLimits limits);

  // Something is to move from now on.
  void Asked(int shard, absl::Time now);
  // Something has moved: the shard can be reached.
  void Moved(int shard, absl::Time now);
  // The running call to shard `shard` has come so far, in floats, or is about
  // to.
  void Progressed(int shard, int64_t floats, absl::Time now);
  // The call to it that is to be repeated begins at nothing.
  void BeginsAnew(int shard) { calls_[shard].progress = 0; }
  // Nothing is to move until Progressed.
  void Rested(int shard) { calls_[shard].moved.reset(); }
  // The running call to shard `shard` has ended.
  void Ended(int shard, const absl::Status& status, absl::Time now);
  // The shards whose call has stalled by now, each once: it is to be cancelled.
  std::vector<int> TakeStalled(absl::Time now);
  // The shards whose call is to be repeated by now; they run again.
  std::vector<int> TakeDue(absl::Time now);
  // When the next call is to be repeated; InfiniteFuture when none is.
  absl::Time next_due() const;
  // When the next call will have stalled, unless something moves;
  // InfiniteFuture when none is under way.
  absl::Time next_stall() const;

  // Every call has succeeded.
  bool succeeded() const;
  // How far each call has come.
  std::vector<int64_t> progress() const;
  // Every call has come so far or succeeded.
  bool reached(absl::Span<const int64_t> floats) const;
  // The first call that failed for good, with the shard's name; else OK. Of a
  // shard that was not heard of it AsksForRestart.
  const absl::Status& failure() const { return failure_; }
  // No call runs.
  bool idle() const;
  // kDeadlineExceeded, with the first shard that has not answered and its last
  // words. REQUIRES: !succeeded().
  absl::Status DescribeWait() const;
  // The shard that has not been reached for longest.
  std::optional<UnreachedShard> unreached() const;

 private:
  enum class State { kRunning, kWaiting, kSucceeded, kFailed };
  struct Call {
    std::string name;
    RetryPolicy retry;
    State state = State::kRunning;
    int64_t progress = 0;
    // kRunning, and under way: when something moved last.
    std::optional<absl::Time> moved{};
    bool stalled = false;  // kRunning: TakeStalled has named it.
    absl::Time due{};      // kWaiting: when it is repeated.
    absl::Status last{};   // How the attempt before ended.
  };

  // When the call will have stalled, unless something moves.
  absl::Time StallOf(const Call& call) const;
  // What a failed call's error says to a person.
  absl::Status Described(int shard, const absl::Status& status) const;

  CallLimits limits_;  // Constant after construction.

  std::vector<Call> calls_;
  absl::Status failure_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_SHARD_CALLS_H_
