#ifndef SLUICE_WORKER_EXCHANGE_CALL_DRIVER_H_
#define SLUICE_WORKER_EXCHANGE_CALL_DRIVER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "worker/exchange/completion_loop.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/shard_calls.h"
#include "worker/task/cancel_token.h"

namespace sluice {

// One call to each shard, from the thread that waits for them: hears how each
// goes and ends, gives up what has stalled, has repeated what a repetition may
// help, and blocks until all are through, or far enough.
//
// Begin, Drive, DriveTo, BeginsAnew and Drain: from one thread; the others from
// any, but for OnProgress and OnCallEnded, which say from which.
class CallDriver {
 public:
  // What the driver has done to one of the calls.
  struct Hands {
    // Begins a call to the shard in the place of the one that has ended.
    std::function<void(int shard)> repeat;
    // Ends the call soon, unless it has ended.
    std::function<void(int shard)> cancel;
  };

  // `names` in shard order, for errors ("shard 1 at host:port"). The calls are
  // on the loop, which must outlive this, as must `clock`.
  CallDriver(std::vector<std::string> names, CallLimits limits, Clock* clock,
             CompletionLoop* loop);

  // A call to each shard begins: nothing is known of them. REQUIRES: none runs.
  void Begin();
  // Drives the calls until all have succeeded (OK), one has failed for good,
  // `cancel` is set (kAborted) or the deadline has passed (kDeadlineExceeded).
  // Errors name the shard.
  absl::Status Drive(absl::Time deadline, const CancelToken& cancel,
                     const Hands& hands);
  // The same, until every call has come as far as `floats` says of its shard.
  absl::Status DriveTo(absl::Span<const int64_t> floats, absl::Time deadline,
                       const CancelToken& cancel, const Hands& hands);
  // The call to `shard` that is being repeated begins at nothing.
  void BeginsAnew(int shard);
  // How far each call has come, in floats.
  std::vector<int64_t> progress() const;
  // When any call was under way since Begin, from its first progress on, and
  // did not rest.
  std::vector<Exchange::Travel> travels() const;
  // No call has failed for good.
  bool sound() const;
  // The shard that calls under way have not reached for longest.
  std::optional<UnreachedShard> unreached() const;
  // Waits until every call has ended (OnCallEnded). REQUIRES: all have ended or
  // been cancelled.
  void Drain();
  // Makes Drive look at its cancel token.
  void Wake();

  // How the running call to `shard` goes and how it ended.
  //
  // Something is asked of the shard: it is to answer.
  void OnAsked(int shard);
  // Something of the call has moved: the shard can be reached.
  void OnMoved(int shard);
  // So many floats of the slice are in their place, or are being sent, from its
  // beginning or, of a push, from its end. From the loop's thread or the one
  // that computes.
  void OnProgress(int shard, int64_t floats);
  // Nothing travels until more of the gradient is final.
  void OnRest(int shard);
  // The call has ended: nothing more is heard of it. Its object may be
  // destroyed as soon as this has been called, unless that asks for more. From
  // the loop's thread or the one that cancelled it.
  void OnCallEnded(int shard, const absl::Status& status);

  // Calls that were repeated, so far.
  int64_t repeated_total() const { return repeated_total_; }

 private:
  using Enough = std::function<bool(const ShardCalls&)>;
  absl::Status DriveUntil(const Enough& enough, absl::Time deadline,
                          const CancelToken& cancel, const Hands& hands);
  void Arrive(int shard, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Waits until something has happened that DriveUntil must look at.
  void AwaitNews(const Enough& enough, absl::Time deadline,
                 const CancelToken& cancel);

  // Constant after construction.
  const std::vector<std::string> names_;
  const CallLimits limits_;
  Clock* const clock_;
  CompletionLoop& loop_;

  std::atomic<int64_t> repeated_total_{0};

  mutable absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  ShardCalls calls_ ABSL_GUARDED_BY(mu_);
  std::set<int> travelling_ ABSL_GUARDED_BY(mu_);  // Shards.
  // The last is as yet without an end while any is.
  std::vector<Exchange::Travel> travels_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_CALL_DRIVER_H_
