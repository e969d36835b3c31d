#include "sim/testing/reference_weights.h"

#include <algorithm>

#include "common/grant.h"
#include "common/job/job_counts.h"
#include "common/job/job_learning_rate.h"
#include "common/job/learning_rate.h"
#include "common/status_macros.h"
#include "common/wire/payload.h"
#include "ps_server/coordinator/policy/batch_schedule.h"
#include "ps_server/coordinator/policy/gradient_weights.h"

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
  // With momentum each version depends on all versions before it.
  options.optimizer.mutable_sgd()->set_momentum(0.5);
  return options;
}

ReferenceWeights::ReferenceWeights(const CoordinatorOptions& options,
                                   const ReferenceWeights* parent)
    : shard_([&] {
        ShardOptions shard =
            OptionsOf(Layout(1, 1), 0,
                      std::max(options.job.limits().staged_gradients(),
                               MostGradientsPerUpdate(options.job.sync())));
        shard.stored_version = [parent](const Restore& of, ParameterRange) {
          return absl::StatusOr<Arrays>(parent->ArraysAt(of.version.value()));
        };
        return shard;
      }()),
      secret_(options.grant_secret),
      first_(options.resume.value_or(ResumePoint()).version.value()) {
  SLUICE_CHECK(shard_
                   .Execute({++decisions_, Restore{options.generation,
                                                   Version(first_), secret_}})
                   .ok());
  Keep();
}

void ReferenceWeights::Keep() {
  Arrays& arrays = arrays_.emplace_back();
  for (const Shard::HeldArray& array : shard_.Hold().arrays) {
    arrays.push_back({array.chunks[0].data()[0]});
  }
}

void ReferenceWeights::Commit(const RecordCommit& commit) {
  struct Commit decision;
  decision.version = commit.version;
  decision.learning_rate = commit.learning_rate;
  for (const RecordCommit::Entry& entry : commit.entries) {
    const float gradient = GradientOf(entry.first_batch.value());
    const absl::Span<const uint8_t> bytes(
        reinterpret_cast<const uint8_t*>(&gradient), sizeof(gradient));
    const auto staged = shard_.Stage(
        {entry.key, GrantKey(secret_).GrantFor(entry.key), 0, FloatType::kFp32},
        Payload({bytes}, ChunkChecksum({&gradient, 1})));
    SLUICE_CHECK(staged.ok() && *staged);
    decision.entries.push_back({entry.key, entry.weight});
  }
  SLUICE_CHECK(shard_.Execute({++decisions_, decision}).ok());
  Keep();
}

std::vector<float> ReferenceWeights::Undisturbed(
    const CoordinatorOptions& options) {
  const BatchSchedule schedule =
      JobSchedule(options.job, options.train_samples);
  const LearningRateOptions rate =
      JobLearningRate(options.job, options.train_samples);
  ReferenceWeights weights(options, nullptr);
  std::vector<float> all = {weights.At(0)};
  int64_t samples = 0;
  for (int64_t block = 0; block < schedule.total();) {
    RecordCommit commit;
    std::vector<WeighedGradient> weighed;
    const int64_t before = samples;
    for (int i = 0; i < options.job.sync().gradients_per_update() &&
                    block < schedule.total();
         ++i, ++block) {
      const BatchSchedule::Block what = schedule.BlockAt(BlockId(block));
      RecordCommit::Entry entry;
      entry.key = {options.generation, WorkerId(0), Incarnation(1),
                   Sequence(block + 1)};
      entry.first_batch = what.first_batch;
      commit.entries.push_back(entry);
      weighed.push_back({what.samples, what.batches, 0});
      samples += what.samples;
    }
    const std::vector<float> factors = GradientWeights(weighed, {});
    for (size_t i = 0; i < factors.size(); ++i) {
      commit.entries[i].weight = factors[i];
    }
    commit.version = Version(std::ssize(all));
    commit.learning_rate =
        LearningRate(rate, before, static_cast<int>(commit.entries.size()));
    weights.Commit(commit);
    all.push_back(weights.At(commit.version.value()));
  }
  return all;
}

}  // namespace sluice
