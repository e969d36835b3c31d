// Stands in for the network between one trainer and the shards, bit by bit:
// pulled floats are rounded to the wire type (Travel), and pushed floats are
// encoded with their checksum and decoded by the shard. So a job with BF16
// gradients gives the same weights here as on a real cluster.
#include "sim/local_exchange.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/wire/payload.h"

namespace sluice {

LocalExchange::LocalExchange(const ParameterLayout* layout, WireTypes types,
                             std::vector<Shard*> shards)
    : layout_(*layout),
      format_(layout->statistics()),
      types_(types),
      shards_(std::move(shards)) {
  SLUICE_CHECK(static_cast<int>(shards_.size()) == layout_.shards());
}

void LocalExchange::BeginPull(const PullSpec& spec, absl::Span<float> weights) {
  spec_ = spec;
  weights_ = weights;
  pulled_.clear();
}

absl::StatusOr<OrRestarted<int64_t>> LocalExchange::AwaitPulled(
    int64_t, const CancelToken&) {
  SLUICE_CHECK(snapshots_.size() == shards_.size());
  for (size_t s = 0; s < shards_.size(); ++s) {
    SLUICE_ASSIGN_OR_RETURN(const Version version,
                            PullSlice(static_cast<int>(s)));
    pulled_.push_back(version);
  }
  return layout_.size();
}

absl::StatusOr<std::vector<Version>> LocalExchange::FinishPull(
    const CancelToken& cancel) {
  if (pulled_.empty()) {
    SLUICE_RETURN_IF_ERROR(AwaitPulled(layout_.size(), cancel).status());
  }
  return pulled_;
}

absl::StatusOr<Version> LocalExchange::PullSlice(int shard) {
  const WeightStore::Snapshot& snapshot = *snapshots_[shard];
  const Version version = snapshot.version;
  if (spec_.exact ? version != spec_.version : version < spec_.version) {
    return absl::InternalError(
        absl::StrCat("shard ", shard, ": version ", version.value(),
                     " was chosen, ", spec_.version.value(), " is asked for"));
  }
  const ChunkGrid& grid = shards_[shard]->grid();
  const ParameterRange range = layout_.range(ShardId(shard));
  const auto slice = weights_.subspan(range.begin, range.size());
  for (int chunk = 0; chunk < grid.count(); ++chunk) {
    std::copy_n(snapshot.chunks[chunk].data(), grid.size(chunk),
                slice.begin() + grid.begin(chunk));
  }
  format_.Travel(types_.pull, range, slice);
  return version;
}

void LocalExchange::BeginPush(const GradientKey& key, uint64_t grant,
                              absl::Span<const float> gradient) {
  key_ = key;
  grant_ = grant;
  gradient_ = gradient;
}

absl::Status LocalExchange::FinishPush(const CancelToken&) {
  for (size_t s = 0; s < shards_.size(); ++s) {
    SLUICE_RETURN_IF_ERROR(Stage(static_cast<int>(s)));
  }
  return absl::OkStatus();
}

absl::Status LocalExchange::Stage(int shard) {
  const int64_t begin = layout_.range(ShardId(shard)).begin;
  const ChunkGrid& grid = shards_[shard]->grid();
  std::vector<uint8_t> data;
  for (int chunk = 0; chunk < grid.count(); ++chunk) {
    const int64_t at = begin + grid.begin(chunk);
    const ParameterRange range = {at, at + grid.size(chunk)};
    data.resize(format_.Bytes(types_.push, range));
    const uint64_t checksum = format_.Encode(
        types_.push, range, gradient_.subspan(at, range.size()), data.data());
    SLUICE_RETURN_IF_ERROR(shards_[shard]
                               ->Stage({.key = key_,
                                        .grant = grant_,
                                        .offset = grid.begin(chunk),
                                        .type = types_.push},
                                       Payload({data}, checksum))
                               .status());
  }
  return absl::OkStatus();
}

}  // namespace sluice
