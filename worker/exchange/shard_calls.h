#ifndef SLUICE_WORKER_EXCHANGE_SHARD_CALLS_H_
#define SLUICE_WORKER_EXCHANGE_SHARD_CALLS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/exchange/patience.h"

namespace sluice {

// What has become of one call to each shard: which have succeeded, which wait
// to be repeated and when, and the first that failed for good. Pure: the time
// comes in.
//
// Not thread-safe: call under the owner's lock.
class ShardCalls {
 public:
  // One call to each of `names` ("shard 1 at host:port") is running.
  ShardCalls(std::vector<std::string> names, absl::Duration rejoin_timeout);

  // The running call to shard `shard` has come so far, in floats.
  void Progressed(int shard, int64_t floats);
  // The running call to shard `shard` has ended.
  void Ended(int shard, const absl::Status& status, absl::Time now);
  // The shards whose call is to be repeated by now; they run again.
  std::vector<int> TakeDue(absl::Time now);
  // When the next call is to be repeated; InfiniteFuture when none is.
  absl::Time next_due() const;

  // Every call has succeeded.
  bool succeeded() const;
  // How far each call has come; one that is repeated begins at 0.
  std::vector<int64_t> progress() const;
  // Every call has come so far or succeeded.
  bool reached(absl::Span<const int64_t> floats) const;
  // The first call that failed for good, with the shard's name; else OK.
  const absl::Status& failure() const { return failure_; }
  // No call runs.
  bool idle() const;
  // kDeadlineExceeded, with the first shard that has not answered and its last
  // words. REQUIRES: !succeeded().
  absl::Status DescribeWait() const;
  // Calls repeated so far.
  int64_t repeated() const { return repeated_; }

 private:
  enum class State { kRunning, kWaiting, kSucceeded, kFailed };
  struct Call {
    std::string name;
    Patience patience;
    State state = State::kRunning;
    int64_t progress = 0;
    absl::Time due{};     // kWaiting: when it is repeated.
    absl::Status last{};  // How the attempt before ended.
  };

  std::vector<Call> calls_;
  absl::Status failure_;
  int64_t repeated_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_SHARD_CALLS_H_
