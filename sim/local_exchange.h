#ifndef SLUICE_SIM_LOCAL_EXCHANGE_H_
#define SLUICE_SIM_LOCAL_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "common/parameter_layout.h"
#include "common/wire/wire_format.h"
#include "ps_server/shard/shard.h"
#include "worker/exchange/exchange.h"

namespace sluice {

// One version of each shard's slice, in shard order.
using Snapshots = std::vector<std::shared_ptr<const WeightStore::Snapshot>>;

// The exchange with shards in the same process. A pull copies the snapshots
// that were chosen for it, a push stages in the shards. Nothing blocks.
//
// Not thread-safe: call from the thread that computes.
class LocalExchange final : public Exchange {
 public:
  // The shards have the ranges of `layout`, in order; both must outlive this.
  // Floats are rounded as if they were sent with `types`.
  LocalExchange(const ParameterLayout* layout, WireTypes types,
                std::vector<Shard*> shards);

  // Sets what the next pulls copy. Holds the snapshots until the next Choose.
  void Choose(Snapshots snapshots) { snapshots_ = std::move(snapshots); }

  void BeginPull(const PullSpec& spec, absl::Span<float> weights) override;
  // kInternal: the chosen snapshots are not the version that the pull asks for.
  absl::StatusOr<OrRestarted<int64_t>> AwaitPulled(
      int64_t end, const CancelToken& cancel) override;
  absl::StatusOr<std::vector<Version>> FinishPull(
      const CancelToken& cancel) override;
  void AbortPull() override {}
  void Prefetch(const PullSpec& spec, absl::Span<float> weights) override {}
  void AbortPrefetch() override {}
  void BeginPush(const GradientKey& key, uint64_t grant,
                 absl::Span<const float> gradient) override;
  void PushFrom(int64_t from) override {}
  // Errors as Shard::Stage's.
  absl::Status FinishPush(const CancelToken& cancel) override;
  void AbortPush() override {}
  void Wake() override {}

 private:
  absl::StatusOr<Version> PullSlice(int shard);
  absl::Status Stage(int shard);

  // Constant after construction.
  const ParameterLayout& layout_;
  const WireFormat format_;
  const WireTypes types_;
  const std::vector<Shard*> shards_;

  Snapshots snapshots_;
  PullSpec spec_;
  absl::Span<float> weights_;
  std::vector<Version> pulled_;  // Empty: not pulled yet.
  GradientKey key_;
  uint64_t grant_ = 0;
  absl::Span<const float> gradient_;
};

}  // namespace sluice

#endif  // SLUICE_SIM_LOCAL_EXCHANGE_H_
