#include "sim/local_exchange.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/wire/payload.h"

namespace sluice {

LocalExchange::LocalExchange(const ParameterLayout* layout,
                             std::vector<Shard*> shards)
    : layout_(*layout), shards_(std::move(shards)) {
  SLUICE_CHECK(static_cast<int>(shards_.size()) == layout_.shards());
}

absl::StatusOr<std::vector<Version>> LocalExchange::Pull(
    const PullSpec& spec, absl::Span<float> weights, const CancelToken&) {
  SLUICE_CHECK(snapshots_.size() == shards_.size());
  std::vector<Version> versions;
  for (size_t s = 0; s < shards_.size(); ++s) {
    const WeightStore::Snapshot& snapshot = *snapshots_[s];
    const Version version = snapshot.version;
    if (spec.exact ? version != spec.version : version < spec.version) {
      return absl::InternalError(
          absl::StrCat("shard ", s, ": version ", version.value(),
                       " was chosen, ", spec.version.value(), " is asked for"));
    }
    const ChunkGrid& grid = shards_[s]->grid();
    const int64_t begin = layout_.range(ShardId(s)).begin;
    for (int chunk = 0; chunk < grid.count(); ++chunk) {
      std::copy_n(snapshot.chunks[chunk].data(), grid.size(chunk),
                  weights.begin() + begin + grid.begin(chunk));
    }
    versions.push_back(version);
  }
  return versions;
}

void LocalExchange::BeginPush(const GradientKey& key, uint64_t grant,
                              absl::Span<const float> gradient) {
  key_ = key;
  grant_ = grant;
  gradient_ = gradient;
}

absl::Status LocalExchange::FinishPush(const CancelToken&) {
  for (size_t s = 0; s < shards_.size(); ++s) {
    const ParameterRange range = layout_.range(ShardId(s));
    SLUICE_RETURN_IF_ERROR(
        Stage(shards_[s], gradient_.subspan(range.begin, range.size())));
  }
  return absl::OkStatus();
}

absl::Status LocalExchange::Stage(Shard* shard, absl::Span<const float> slice) {
  const ChunkGrid& grid = shard->grid();
  for (int chunk = 0; chunk < grid.count(); ++chunk) {
    const auto floats = slice.subspan(grid.begin(chunk), grid.size(chunk));
    const auto bytes =
        absl::MakeSpan(reinterpret_cast<const uint8_t*>(floats.data()),
                       floats.size() * sizeof(float));
    SLUICE_RETURN_IF_ERROR(
        shard
            ->Stage({.key = key_, .grant = grant_, .offset = grid.begin(chunk)},
                    Payload({bytes}, ChunkChecksum(floats)))
            .status());
  }
  return absl::OkStatus();
}

}  // namespace sluice
