#ifndef SLUICE_WORKER_EXCHANGE_GRPC_EXCHANGE_H_
#define SLUICE_WORKER_EXCHANGE_GRPC_EXCHANGE_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

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
#include "common/ids.h"
#include "common/parameter_layout.h"
#include "common/rpc/channel_options.h"
#include "common/shared_memory.h"
#include "common/wire/wire_format.h"
#include "worker/cancel_token.h"
#include "worker/exchange/call_driver.h"
#include "worker/exchange/completion_loop.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/floats_on_the_way.h"
#include "worker/exchange/pull_assembly.h"
#include "worker/exchange/shared_shard.h"
#include "worker/exchange/vector_path.h"

namespace sluice {

// One pull of the flat vector after the other: a call to each shard, begun at
// once and waited for later. A call that was begun runs where the loop is
// served, and writes into the weights, and into its assembly, until `calls_`
// have heard its end.
//
// Wake and the totals may be called from any thread.
//
// Not thread-safe: call from the compute thread.
class VectorPull {
 public:
  // `names`, `limits` and `clock`: as CallDriver's.
  VectorPull(VectorPath path, std::vector<std::string> names, CallLimits limits,
             Clock* clock);
  ~VectorPull();  // As Abort.

  // Begins to fill `weights`, which must stay until Finish or Abort has
  // returned. What was begun before is aborted.
  void Begin(const PullSpec& spec, absl::Span<float> weights);
  // The same; the loop's thread, if any, opens the calls, which takes 50 us.
  void BeginAhead(const PullSpec& spec, absl::Span<float> weights);
  // As Exchange::AwaitPulled. REQUIRES: begun().
  absl::StatusOr<OrRestarted<int64_t>> Await(int64_t end, absl::Time deadline,
                                             const CancelToken& cancel);
  // As Exchange::FinishPull. REQUIRES: begun().
  absl::StatusOr<std::vector<Version>> Finish(absl::Time deadline,
                                              const CancelToken& cancel);
  // Nothing writes into the weights any more.
  void Abort();
  // Makes Await and Finish look at their cancel token.
  void Wake() { calls_.Wake(); }

  // Something has been begun, and neither been finished nor aborted.
  bool begun() const { return begun_.has_value(); }
  // The same, into that memory.
  bool Fills(absl::Span<float> weights) const {
    return begun() && weights_.data() == weights.data();
  }
  // The same, of those weights, and no call has failed for good meanwhile.
  bool Brings(const PullSpec& spec, absl::Span<float> weights) const {
    return Fills(weights) && begun_->SameWeights(spec) && calls_.sound();
  }

  // As CallDriver's. From any thread.
  std::optional<UnreachedShard> unreached() const { return calls_.unreached(); }
  int64_t repeated_total() const { return calls_.repeated_total(); }
  int64_t bytes_total() const { return bytes_; }
  std::vector<Exchange::Travel> travels() const { return calls_.travels(); }

 private:
  class Attempt;

  void BeginWithoutCalls(const PullSpec& spec, absl::Span<float> weights);
  void Start(int shard);
  // The same, where the call before has broken: it goes on there, if it can.
  void Repeat(int shard);
  // Floats that are there, from the first on.
  int64_t There() const;
  CallDriver::Hands MakeHands();
  // Of attempts that have delivered or end soon.
  void LetGo();

  // Constant after construction.
  const VectorPath path_;
  const CallDriver::Hands hands_;

  std::optional<PullSpec> begun_;
  absl::Span<float> weights_;
  int64_t given_ = 0;    // Await said that so many are there.
  bool broken_ = false;  // Some of these come anew.
  // What is there of each slice: the loop thread's while a call runs.
  std::vector<PullAssembly> assemblies_;
  std::vector<std::unique_ptr<Attempt>> attempts_;
  std::vector<std::unique_ptr<Attempt>> ending_;  // They have delivered.
  std::atomic<int64_t> bytes_{0};                 // Of weights that have come.

  CallDriver calls_;
};

// One push of the flat vector after the other: to each shard one call, or some
// beside each other (Slice), which bring its slice while it is made.
//
// Wake and the totals may be called from any thread.
//
// Not thread-safe: call from the compute thread.
class VectorPush {
 public:
  struct Gradient {
    GradientKey key;
    std::string grant;
    absl::Span<const float> floats;
    std::string ready = {};  // Travels with the first floats, the last to go.
  };
  // At most `lanes` calls to a shard at once. The others: as VectorPull's.
  VectorPush(VectorPath path, int lanes, std::vector<std::string> names,
             CallLimits limits, Clock* clock);
  ~VectorPush();  // As Abort.

  // As Exchange's BeginPush, PushFrom, PushLast, FinishPush and AbortPush.
  void Begin(Gradient gradient);
  void From(int64_t from);
  void Last(const proto::Ready& ready);
  absl::Status Finish(const CancelToken& cancel);
  void Abort();
  // Makes Finish look at its cancel token.
  void Wake() { calls_.Wake(); }

  // As VectorPull's.
  std::optional<UnreachedShard> unreached() const { return calls_.unreached(); }
  int64_t repeated_total() const { return calls_.repeated_total(); }
  int64_t bytes_total() const { return bytes_; }
  std::vector<Exchange::Travel> travels() const { return calls_.travels(); }

 private:
  class Slice;
  class Lane;

  // Constant after construction.
  const VectorPath path_;
  const int lanes_;

  Gradient gradient_;
  std::vector<std::unique_ptr<Slice>> slices_;  // Empty: nothing is begun.
  std::atomic<int64_t> bytes_{0};  // Handed to the network, of gradients.

  CallDriver calls_;
};

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
    std::string client;  // Who asks, for the shards' logs: "worker 3".
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
  // said so. kUnavailable: not for `timeout`, which the job calls `field`;
  // names those shards. REQUIRES: nothing is under way.
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
