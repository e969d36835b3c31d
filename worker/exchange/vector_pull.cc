#include "worker/exchange/vector_pull.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "proto/exchange.pb.h"

namespace sluice {

VectorPull::VectorPull(Path path, std::vector<std::string> names,
                       CallLimits limits, Clock* clock)
    : path_(std::move(path)),
      hands_(MakeHands()),
      calls_(std::move(names), limits, clock) {}

CallDriver::Hands VectorPull::MakeHands() {
  return {.repeat = [this](int shard) { Repeat(shard); },
          .cancel = [this](int shard) { attempts_[shard]->Cancel(); }};
}

void VectorPull::Begin(const PullSpec& spec, absl::Span<float> weights) {
  SLUICE_CHECK(static_cast<int64_t>(weights.size()) == path_.layout->size());
  Abort();
  begun_ = spec;
  weights_ = weights;
  given_ = 0;
  broken_ = false;
  calls_.Begin();
  attempts_.resize(path_.stubs->size());
  assemblies_.clear();
  for (int shard = 0; shard < path_.layout->shards(); ++shard) {
    assemblies_.emplace_back(path_.layout->range(ShardId(shard)).size(),
                             spec.version, spec.exact);
  }
  for (int shard = 0; shard < path_.layout->shards(); ++shard) Start(shard);
}

void VectorPull::Start(int shard) {
  const ParameterRange range = path_.layout->range(ShardId(shard));
  proto::PullRequest request;
  request.set_generation(begun_->generation.value());
  request.set_client(path_.client);
  attempts_[shard] = std::make_unique<PullAttempt>(
      PullAttempt::Slice{.shard = shard,
                         .range = range,
                         .chunk_floats = path_.chunk_floats,
                         .format = path_.format,
                         .type = path_.type,
                         .into = weights_.subspan(range.begin, range.size()),
                         .assembly = &assemblies_[shard],
                         .observer = &calls_});
  attempts_[shard]->Start(request, (*path_.stubs)[shard].get(), path_.queue);
}

void VectorPull::Repeat(int shard) {
  if (assemblies_[shard].BeginAnew()) {
    calls_.BeginsAnew(shard);
    broken_ |= given_ > path_.layout->range(ShardId(shard)).begin;
  }
  Start(shard);
}

int64_t VectorPull::There() const {
  const std::vector<int64_t> progress = calls_.progress();
  int64_t there = 0;
  for (int shard = 0; shard < path_.layout->shards(); ++shard) {
    there += progress[shard];
    if (progress[shard] < path_.layout->range(ShardId(shard)).size()) break;
  }
  return there;
}

absl::StatusOr<OrRestarted<int64_t>> VectorPull::Await(
    int64_t end, absl::Time deadline, const CancelToken& cancel) {
  std::vector<int64_t> enough;
  for (int shard = 0; shard < path_.layout->shards(); ++shard) {
    const ParameterRange range = path_.layout->range(ShardId(shard));
    enough.push_back(std::clamp<int64_t>(end - range.begin, 0, range.size()));
  }
  SLUICE_RETURN_IF_ERROR(calls_.DriveTo(enough, deadline, cancel, hands_));
  if (std::exchange(broken_, false)) {
    given_ = 0;
    return Restarted{};
  }
  return given_ = There();
}

absl::StatusOr<std::vector<Version>> VectorPull::Finish(
    absl::Time deadline, const CancelToken& cancel) {
  const absl::Status status = calls_.Drive(deadline, cancel, hands_);
  std::vector<Version> versions;
  if (status.ok()) {
    for (const PullAssembly& assembly : assemblies_) {
      versions.push_back(assembly.version());
    }
  }
  Abort();
  SLUICE_RETURN_IF_ERROR(status);
  return versions;
}

void VectorPull::Abort() {
  begun_.reset();
  if (attempts_.empty()) return;
  for (const auto& attempt : attempts_) attempt->Cancel();
  calls_.Drain();
  attempts_.clear();
}

}  // namespace sluice
