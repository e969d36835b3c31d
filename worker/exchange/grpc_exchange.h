#ifndef SLUICE_WORKER_EXCHANGE_GRPC_EXCHANGE_H_
#define SLUICE_WORKER_EXCHANGE_GRPC_EXCHANGE_H_

#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/parameter_layout.h"
#include "worker/exchange/completion_loop.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/pull_attempt.h"
#include "worker/exchange/push_attempt.h"
#include "worker/exchange/shard_calls.h"

namespace sluice {

// The exchange over gRPC: a connection of its own to each shard, all calls on
// one completion loop.
//
// Chunks of a push are copied into the message that carries them (free beside
// the socket), so nothing of the gradient is read once a call has ended, and
// a cancelled push needs to wait for no buffer that the transport still holds.
//
// Wake may be called from any thread.
//
// Not thread-safe: call from the thread that computes.
class GrpcExchange final : public Exchange, private CallObserver {
 public:
  struct Options {
    std::string client;  // Who asks, for the shards' logs: "worker 3".
    int64_t chunk_bytes = 1 << 20;  // The shards'; they refuse any other.
    // One attempt to pull or push a slice. A shard parks a pull until shortly
    // before; a slice of 4 GiB takes 35 s at 1 Gbit/s.
    absl::Duration call_timeout = absl::Seconds(60);
    // A push lasts as long as the backward pass that makes it.
    absl::Duration push_timeout = absl::Seconds(600);
    // How long a shard that cannot be reached is tried again.
    absl::Duration rejoin_timeout = absl::Seconds(5);
    Clock* clock = Clock::Real();
    // Exchanges of one process that work at the same time, such as one that
    // pushes while another pulls, should share it. Null: one of its own.
    std::shared_ptr<CompletionLoop> loop = nullptr;
  };

  // `addresses` in shard order. `layout` must outlive the exchange.
  // REQUIRES: one address for each shard of the layout, no range empty.
  GrpcExchange(const ParameterLayout* layout,
               std::vector<std::string> addresses, Options options);
  ~GrpcExchange() override;

  absl::StatusOr<std::vector<Version>> Pull(const PullSpec& spec,
                                            absl::Span<float> weights,
                                            const CancelToken& cancel) override;
  void PullAhead(const PullSpec& spec, absl::Span<float> weights) override;
  void BeginPush(const GradientKey& key, uint64_t grant,
                 absl::Span<const float> gradient) override;
  void PushFrom(int64_t from) override;
  absl::Status FinishPush(const CancelToken& cancel) override;
  void AbortPush() override;
  void Wake() override;

  // Calls that were repeated, so far.
  int64_t repeated_calls_total() const { return repeated_calls_total_; }

 private:
  void OnCallEnded(int shard, const absl::Status& status) override;
  // All calls begin: nothing is known of them.
  void ResetCalls();
  // Repeats by `repeat` what is to be repeated, until all calls have
  // succeeded (OK), one has failed for good, `cancel` is set or the deadline
  // has passed.
  absl::Status Drive(absl::Time deadline, const CancelToken& cancel,
                     const std::function<void(int)>& repeat);
  // Waits until something has happened that Drive must look at.
  void AwaitNews(absl::Time deadline, const CancelToken& cancel);
  // Waits until no call runs; all have ended or been cancelled.
  void Drain();

  void StartPulls(const PullSpec& spec, absl::Span<float> weights);
  void StartPull(int shard, const PullSpec& spec, absl::Span<float> weights);
  // Nothing writes into the pulled weights any more.
  void AbortPull();
  void MakePush(int shard);

  // Constant after construction.
  const ParameterLayout& layout_;
  const Options options_;
  const int64_t chunk_floats_;
  std::vector<std::string> names_;  // "shard 1 at host:port"
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;

  // Of the thread that computes. Empty when nothing is under way.
  std::vector<std::unique_ptr<PullAttempt>> pulls_;
  std::optional<PullSpec> ahead_;    // What PullAhead began,
  absl::Span<float> ahead_weights_;  // and whereto.
  std::vector<std::unique_ptr<PushAttempt>> pushes_;
  PushedGradient pushed_;
  absl::Time push_deadline_;

  std::atomic<int64_t> repeated_calls_total_{0};

  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  ShardCalls calls_ ABSL_GUARDED_BY(mu_);

  // Last, so that its thread, if it is nobody else's, ends first.
  const std::shared_ptr<CompletionLoop> loop_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_GRPC_EXCHANGE_H_
