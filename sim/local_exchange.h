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

// The exchange with shards of this very process: a pull copies the snapshots
// that were chosen for it, a push stages in the shards. Nothing blocks.
//
// Not thread-safe: call from the thread that computes.
class LocalExchange final : public Exchange {
 public:
  // The shards, in order, have the ranges of `layout`; both must outlive this.
  // Floats become what `types` make of them.
  LocalExchange(const ParameterLayout* layout, WireTypes types,
                std::vector<Shard*> shards);

  // The next pulls copy these, and no later call holds them.
  void Choose(Snapshots snapshots) { snapshots_ = std::move(snapshots); }

  void BeginPull(const PullSpec& spec, absl::Span<float> weights) override;
  // kInternal: what was chosen is not what the pull asks for.
  absl::StatusOr<int64_t> AwaitPulled(int64_t end,
                                      const CancelToken& cancel) override;
  absl::StatusOr<std::vector<Version>> FinishPull(
      const CancelToken& cancel) override;
  void AbortPull() override {}
  void PullAhead(const PullSpec& spec, absl::Span<float> weights) override {}
  void AbortPullAhead() override {}
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
  std::vector<Version> pulled_;  // Empty: nothing yet.
  GradientKey key_;
  uint64_t grant_ = 0;
  absl::Span<const float> gradient_;
};

}  // namespace sluice

#endif  // SLUICE_SIM_LOCAL_EXCHANGE_H_
