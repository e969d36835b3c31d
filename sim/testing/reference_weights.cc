#include "sim/testing/reference_weights.h"

#include "common/grant.h"
#include "common/status_macros.h"
#include "common/wire/payload.h"

namespace sluice {
namespace {

// Small, so that a slice has several chunks.
constexpr int64_t kChunkBytes = 16 * sizeof(float);

}  // namespace

ParameterLayout ReferenceWeights::Layout(int64_t floats, int shards) {
  TensorSpec tensor;
  tensor.name = "weights";
  tensor.shape = {floats};
  tensor.size = floats;
  return ParameterLayout({tensor}, shards);
}

ShardOptions ReferenceWeights::OptionsOf(const ParameterLayout& layout,
                                         int64_t shard, int staged_gradients) {
  ShardOptions options{.id = ShardId(shard),
                       .initial_weights =
                           [layout](ParameterRange range) {
                             return layout.InitialWeights(1, range);
                           },
                       .layout = layout,
                       .optimizer = {},
                       .chunk_bytes = kChunkBytes,
                       .max_held = 2,
                       .staged_gradients = staged_gradients,
      .digest_every = 0};
  // Old velocities make each version depend on all before it.
  options.optimizer.mutable_sgd()->set_momentum(0.5);
  return options;
}

ReferenceWeights::ReferenceWeights(const CoordinatorOptions& options)
    : shard_(OptionsOf(Layout(1, 1), 0, options.staged_gradients)),
      secret_(options.grant_secret) {
  SLUICE_CHECK(shard_
                   .Execute({++decisions_,
                             Restore{options.generation, Version(0), secret_}})
                   .ok());
  weights_.push_back(0);
}

void ReferenceWeights::Commit(const RecordCommit& commit) {
  struct Commit decision;
  decision.version = commit.version;
  decision.learning_rate = commit.learning_rate;
  for (const RecordCommit::Entry& entry : commit.entries) {
    const float gradient = GradientOf(entry.first_batch.value());
    const absl::Span<const uint8_t> bytes(
        reinterpret_cast<const uint8_t*>(&gradient), sizeof(gradient));
    const auto staged =
        shard_.Stage({entry.key, GrantFor(secret_, entry.key), 0},
                     Payload({bytes}, ChunkChecksum({&gradient, 1})));
    SLUICE_CHECK(staged.ok() && *staged);
    decision.entries.push_back({entry.key, entry.weight});
  }
  SLUICE_CHECK(shard_.Execute({++decisions_, decision}).ok());
  const auto read = shard_.Pull({shard_.generation(), commit.version, true});
  SLUICE_CHECK(read.ok() && read->has_value());
  weights_.push_back((*read)->snapshot->chunks[0].data()[0]);
  shard_.EndRead((*read)->id);
}

}  // namespace sluice
