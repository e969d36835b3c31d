#ifndef SLUICE_WORKER_EXCHANGE_GRPC_EXCHANGE_H_
#define SLUICE_WORKER_EXCHANGE_GRPC_EXCHANGE_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

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
#include "common/ids.h"
#include "common/parameter_layout.h"
#include "common/process/shared_memory.h"
#include "common/rpc/channel_options.h"
#include "common/wire/wire_format.h"
#include "worker/exchange/call_driver.h"
#include "worker/exchange/completion_loop.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/floats_on_the_way.h"
#include "worker/exchange/shared_shard.h"
#include "worker/exchange/vector_path.h"
#include "worker/exchange/vector_pull.h"
#include "worker/exchange/vector_push.h"
#include "worker/task/cancel_token.h"

namespace sluice {

// The exchange over gRPC: a connection of its own to each shard, all calls on
// one completion loop.
//
// A slice of one chunk is pushed as FP32 from where it lies, else chunks are
// copied into messages. The transport may read it beyond the end of a push that
// was given up, and find parts of the next gradient there: what then arrives
// has a wrong checksum and is refused, of a task that has ended.
//
// With a shard on this host memory is shared (ShareMemory): what travels as
// FP32 is then copied once, by whoever receives it, and calls say only where it
// lies. A shard may still read of a push that was given up; what it reads then
// belongs to no gradient that anybody says is ready.
//
// A call lasts as long as something moves; one that has stalled, or whose shard
// cannot be reached, is repeated until the shard has not been heard of for
// limits.partition. A pull goes on where it broke off.
//
// Not thread-safe: call from the compute thread, but for Wake.
class GrpcExchange final : public Exchange {
 public:
  struct Options {
    // How the shards are connected to; null: in plain text.
    std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;
    // For the weights; with kRoundTrip a gradient has several calls at once.
    Window window = Window::kMessage;
    int64_t chunk_bytes = 1 << 20;  // The shards'; they refuse any other.
    // How floats travel; the shards refuse pushes of another type than theirs.
    WireTypes types = {};
    CallLimits limits = {};
    Clock* clock = Clock::Real();
    // Exchanges of one process that work at the same time, such as one that
    // pushes while another pulls, should share it. Null: one of its own. Those
    // of small slices need none: whoever waits for an answer receives it.
    std::shared_ptr<CompletionLoop> loop = nullptr;
  };

  // `addresses` of all shards, in order. `layout`, which may be a part of the
  // vector (ParameterLayout::Part), and what is pushed must outlive the
  // exchange. REQUIRES: one address for each shard that the layout names, no
  // range empty.
  GrpcExchange(const ParameterLayout* layout,
               std::vector<std::string> addresses, Options options);
  ~GrpcExchange() override;

  // Waits until there is a connection to every shard, and says every 2 s which
  // it lacks. OK: there is, or `stopped`, which is asked about every 100 ms,
  // said so. kUnavailable, which AsksForRestart: not for `timeout`, which the
  // job calls `field`; names those shards. REQUIRES: nothing is under way.
  absl::Status AwaitReachable(absl::Duration timeout, const std::string& field,
                              const std::function<bool()>& stopped);

  // Shares memory with those shards of this host that would, and says which.
  // `gradients`, in which gradients may lie, must outlive the exchange; what
  // lies elsewhere is sent. Blocks for a few seconds at most. REQUIRES: nothing
  // is under way, and it has not been called before.
  void ShareMemory(const std::vector<const SharedMemory*>& gradients);

  void BeginPull(const PullSpec& spec, absl::Span<float> weights) override;
  absl::StatusOr<OrRestarted<int64_t>> AwaitPulled(
      int64_t end, const CancelToken& cancel) override;
  absl::StatusOr<std::vector<Version>> FinishPull(
      const CancelToken& cancel) override;
  void AbortPull() override;
  void Prefetch(const PullSpec& spec, absl::Span<float> weights) override;
  void AbortPrefetch() override { prefetch_.Abort(); }
  void BeginPush(const GradientKey& key, const std::string& grant,
                 absl::Span<const float> gradient) override;
  void PushFrom(int64_t from) override;
  bool takes_ready() const override;
  void PushLast(const proto::Ready& ready) override;
  absl::Status FinishPush(const CancelToken& cancel) override;
  void AbortPush() override;
  void Wake() override;
  std::vector<Travel> pull_travels() const override { return pull_travels_; }
  std::vector<Travel> push_travels() const override { return push_travels_; }

  // The shard that what is under way has not reached for longest. From any
  // thread.
  std::optional<UnreachedShard> unreached() const;
  // Calls that were repeated, so far.
  int64_t repeated_calls_total() const {
    return pull_.repeated_total() + prefetch_.repeated_total() +
           push_.repeated_total();
  }
  // Bytes of weights that have come, and of gradients that were handed to the
  // network, so far; not what messages add to them.
  int64_t pulled_bytes_total() const {
    return pull_.bytes_total() + prefetch_.bytes_total();
  }
  int64_t pushed_bytes_total() const { return push_.bytes_total(); }

 private:
  VectorPath PathOf(FloatType type);
  // The shards that there is no connection to: "shard 1 at host:port, ...".
  std::string Unconnected() const;
  void SetUnconnected(std::optional<UnreachedShard> shards);

  // Constant after construction.
  const ParameterLayout& layout_;
  const Options options_;
  const int64_t chunk_floats_;
  const WireFormat format_;
  const std::vector<std::string> names_;  // "shard 1 at host:port"
  // Ends after the channels, which close.
  FloatsOnTheWay on_the_way_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  std::vector<std::unique_ptr<SharedShard>> shared_;  // Or nullptr, each.
  // Ends, if it is nobody else's, after all that uses its queue.
  const std::shared_ptr<CompletionLoop> loop_;

  // Of the compute thread.
  VectorPull pull_;
  VectorPull prefetch_;            // What Prefetch began.
  VectorPull* pulling_ = nullptr;  // One of these, while a pull is under way.
  absl::Time pull_deadline_;
  std::vector<Travel> pull_travels_, push_travels_;
  VectorPush push_;

  mutable absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  // While AwaitReachable has waited for long enough to say so.
  std::optional<UnreachedShard> unconnected_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_GRPC_EXCHANGE_H_
