#include "ps_server/shard/optimizer.h"

#include <vector>

#include "gtest/gtest.h"
#include "ps_server/shard/shard_testing.h"

namespace sluice {
namespace {

using ::sluice::testing::Constant;

// Runs `steps` updates with constant gradients 0.5 and 0.25 over `range`, in
// chunks of `chunk` floats, and returns the weights, which start at 1.
std::vector<float> Train(const proto::Optimizer& job,
                         const ParameterLayout& layout, ParameterRange range,
                         int64_t chunk, int steps) {
  const ChunkGrid grid(range.size(), chunk);
  Optimizer optimizer(job, layout, range, grid);
  const std::vector<float> g1(range.size(), 0.5f), g2(range.size(), 0.25f);
  std::vector<float> weights(range.size(), 1.0f);
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < grid.count(); ++i) {
      float* place = weights.data() + grid.begin(i);
      optimizer.Apply(0.1, {g1.data(), g2.data()}, {0.5f, 0.5f}, i, place,
                      place);
    }
  }
  return weights;
}

proto::Optimizer Momentum(double weight_decay) {
  proto::Optimizer job;
  job.mutable_sgd()->set_momentum(0.9);
  job.mutable_sgd()->set_weight_decay(weight_decay);
  return job;
}

TEST(OptimizerTest, WeightDecaySkipsTheTensorsThatHaveNone) {
  const ParameterLayout layout(
      {Constant("a", 20, 1, true), Constant("b", 7, 1, false),
       Constant("c", 30, 1, true)},
      1);
  const auto decayed = Train(Momentum(0.1), layout, {0, 57}, 16, 3);
  const auto plain = Train(Momentum(0), layout, {0, 57}, 16, 3);
  for (int i = 0; i < 57; ++i) {
    const bool in_b = i >= 20 && i < 27;
    EXPECT_EQ(decayed[i] == plain[i], in_b) << i;
  }
}

TEST(OptimizerTest, ChunksAndRangesDoNotChangeTheBits) {
  const ParameterLayout layout(
      {Constant("a", 33, 1, true), Constant("b", 50, 1, false),
       Constant("c", 45, 1, true)},
      2);
  const auto whole = Train(Momentum(0.1), layout, {0, 128}, 128, 4);
  EXPECT_EQ(Train(Momentum(0.1), layout, {0, 128}, 16, 4), whole);
  auto parts = Train(Momentum(0.1), layout, layout.range(ShardId(0)), 32, 4);
  const auto rest =
      Train(Momentum(0.1), layout, layout.range(ShardId(1)), 32, 4);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, whole);
}

TEST(OptimizerTest, MomentumIsRememberedFromUpdateToUpdateUntilReset) {
  const ParameterLayout layout({Constant("a", 4, 1, true)}, 1);
  const ChunkGrid grid(4, 4);
  Optimizer optimizer(Momentum(0), layout, {0, 4}, grid);
  const std::vector<float> gradient(4, 1.0f), zero(4, 0.0f);
  std::vector<float> weights(4, 0.0f);
  const auto apply = [&](const std::vector<float>& g) {
    optimizer.Apply(1, {g.data()}, {1.0f}, 0, weights.data(), weights.data());
  };
  apply(gradient);
  apply(zero);
  EXPECT_EQ(weights[0], -1 - 0.9f);
  optimizer.Reset();
  apply(zero);
  EXPECT_EQ(weights[0], -1 - 0.9f);
}

}  // namespace
}  // namespace sluice
