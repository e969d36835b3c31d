#ifndef SLUICE_WORKER_EXCHANGE_EXCHANGE_H_
#define SLUICE_WORKER_EXCHANGE_EXCHANGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "proto/coordinator.pb.h"
#include "worker/task/cancel_token.h"
#include "worker/task/flow.h"

namespace sluice {

// Which weights to pull.
struct PullSpec {
  Generation generation;
  Version version;
  bool exact = false;   // Exactly `version`; else it or newer.
  absl::Time deadline;  // Until when a version not yet there is waited for.

  // The same weights are asked for.
  bool SameWeights(const PullSpec& other) const {
    return generation == other.generation && version == other.version &&
           exact == other.exact;
  }
};

// Weights and gradients between this process and all shards: the one way in
// which bulk data moves. Weights and gradients are the flat vector
// (ParameterLayout), each shard's range cut into chunks.
//
// The gRPC implementation is grpc_exchange.h; tests and the simulator have
// their own.
//
// Wake may be called from any thread.
//
// Not thread-safe: call from the compute thread.
class Exchange {
 public:
  virtual ~Exchange() = default;

  // Begins to fill `weights` from all shards at once: on another thread or,
  // where they are small, on this one while it waits. They must stay until
  // FinishPull or AbortPull has returned, and of them only what AwaitPulled has
  // returned may be looked at before. REQUIRES: no pull is under way.
  virtual void BeginPull(const PullSpec& spec, absl::Span<float> weights) = 0;
  // Waits until the floats before `end` are there, and returns how many are
  // from the first on; these stay as they are. Restarted: a shard's call broke,
  // was begun anew and may bring another version; whatever has been made of its
  // floats must be made again, from the first await on. Blocks; a version that
  // is not there yet is waited for. Errors, each naming the shard:
  //   kAborted             `cancel` was set, or a shard is past the version
  //   kDeadlineExceeded    not there by the deadline
  //   kFailedPrecondition  another generation or job
  //   kUnavailable         a shard could not be reached for too long
  //   kDataLoss            a checksum is wrong, or the chunks do not fit
  // The weights are then undefined. REQUIRES: a pull is under way, `end` >= 1.
  virtual absl::StatusOr<OrRestarted<int64_t>> AwaitPulled(
      int64_t end, const CancelToken& cancel) = 0;
  // Waits for all of them and returns each shard's version, in shard order: the
  // bytes of one shard are all of that one version. Whatever it returns, the
  // pull is over. Errors as above. REQUIRES: none of them have been waited for,
  // or all.
  virtual absl::StatusOr<std::vector<Version>> FinishPull(
      const CancelToken& cancel) = 0;
  // Stops the pull, if one is under way; nothing writes into its weights any
  // more.
  virtual void AbortPull() = 0;
  // All at once.
  absl::StatusOr<std::vector<Version>> Pull(const PullSpec& spec,
                                            absl::Span<float> weights,
                                            const CancelToken& cancel) {
    BeginPull(spec, weights);
    return FinishPull(cancel);
  }

  // A pull to come will probably be this one: begins it without waiting, so
  // that the shards answer as soon as they can, beside whatever else is under
  // way. Whether that pull comes or another one is right as if this had not
  // been called, but `weights` must stay and is undefined until a pull fills
  // it or AbortPrefetch has returned. Replaces what was prefetched before.
  virtual void Prefetch(const PullSpec& spec, absl::Span<float> weights) = 0;
  // Stops the prefetch, if there is one; nothing writes into its weights any
  // more.
  virtual void AbortPrefetch() = 0;

  // Begins to push the gradient of task `key`, whose room was granted as
  // `grant`. `gradient` must stay until FinishPush or AbortPush has returned.
  // REQUIRES: no push is under way.
  virtual void BeginPush(const GradientKey& key, const std::string& grant,
                         absl::Span<const float> gradient) = 0;
  // Everything of the gradient from float `from` on is final: chunks that are
  // complete begin to travel. Does not block on the network.
  virtual void PushFrom(int64_t from) = 0;
  // The one shard's process has the coordinator, and hands it what a push says
  // of its gradient.
  virtual bool takes_ready() const { return false; }
  // As PushFrom(0). Once all of the gradient is staged the coordinator gets
  // `ready`, before FinishPush returns OK. REQUIRES: takes_ready().
  virtual void PushLast(const proto::Ready& ready) {}
  // Waits until every shard has staged all of it. A push that broke is
  // repeated whole under its key. Whatever it returns, the push is over.
  // Errors, each naming the shard:
  //   kAborted            `cancel` was set, or the task has ended
  //   kInvalidArgument    the gradient was refused: NaN or Inf, with the
  //                       tensor's name
  //   kFailedPrecondition, kUnavailable, kDeadlineExceeded, kPermissionDenied,
  //   kDataLoss
  // REQUIRES: PushFrom(0) or PushLast was called.
  virtual absl::Status FinishPush(const CancelToken& cancel) = 0;
  // Stops the push, if one is under way; nothing reads the gradient any more.
  virtual void AbortPush() = 0;

  // Makes a waiting call look at its cancel token. From any thread.
  virtual void Wake() = 0;

  // When floats travelled, between any shard and here: weights from when the
  // first chunk had come to when the call ended, a gradient while a chunk was
  // being sent, and from the last one to when it was staged; where they are
  // small, as the waiting thread saw it.
  struct Travel {
    absl::Time begin, end;
  };
  // In order, of the last pull, and of the last push, that ended well; empty
  // where it is not known.
  virtual std::vector<Travel> pull_travels() const { return {}; }
  virtual std::vector<Travel> push_travels() const { return {}; }
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_EXCHANGE_H_
