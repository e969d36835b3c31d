#include "ps_server/shard/optimizer.h"

#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/job/resolved_job.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "ps_server/shard/shard_testing.h"

namespace sluice {
namespace {

using ::sluice::testing::Constant;

proto::Optimizer Parse(const std::string& text) {
  proto::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      text, job.mutable_optimizer()));
  ResolveDefaults(&job);
  return job.optimizer();
}

// Runs `steps` updates with constant gradients 0.5 and 0.25 over `range`, in
// chunks of `chunk` floats, at `rate`, and returns the weights, which start at
// 1.
std::vector<float> Train(const proto::Optimizer& job,
                         const ParameterLayout& layout, ParameterRange range,
                         int64_t chunk, int steps, double rate = 0.1) {
  const ChunkGrid grid(range.size(), chunk);
  Optimizer optimizer(job, layout, range, grid);
  const std::vector<float> g1(range.size(), 0.5f), g2(range.size(), 0.25f);
  std::vector<float> weights(range.size(), 1.0f);
  for (int step = 1; step <= steps; ++step) {
    for (int i = 0; i < grid.count(); ++i) {
      float* place = weights.data() + grid.begin(i);
      optimizer.Apply({Version(step),
                       rate,
                       {g1.data(), g2.data()},
                       {0.5f, 0.5f},
                       {0.5f, 0.5f}},
                      i, place, place);
    }
  }
  return weights;
}

// An optimizer, and its text without weight decay.
struct Case {
  const char* name;
  const char* with_decay;
  const char* without;
};

class EveryOptimizerTest : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(
    All, EveryOptimizerTest,
    ::testing::Values(Case{"Sgd", "sgd { momentum: 0.9 weight_decay: 0.1 }",
                           "sgd { momentum: 0.9 }"},
                      Case{"Adagrad", "adagrad { weight_decay: 0.1 }",
                           "adagrad {}"},
                      Case{"Adam", "adam { weight_decay: 0.1 }", "adam {}"},
                      Case{"AdamW", "adamw { weight_decay: 0.1 }",
                           "adamw { weight_decay: 0 }"}),
    [](const auto& test) { return test.param.name; });

TEST_P(EveryOptimizerTest, WeightDecaySkipsTheTensorsThatHaveNone) {
  const ParameterLayout layout(
      {Constant("a", 20, 1, true), Constant("b", 7, 1, false),
       Constant("c", 30, 1, true)},
      1);
  const auto decayed =
      Train(Parse(GetParam().with_decay), layout, {0, 57}, 16, 3);
  const auto plain = Train(Parse(GetParam().without), layout, {0, 57}, 16, 3);
  for (int i = 0; i < 57; ++i) {
    const bool in_b = i >= 20 && i < 27;
    EXPECT_EQ(decayed[i] == plain[i], in_b) << i;
  }
}

TEST_P(EveryOptimizerTest, AGroupHasItsOwnRateAndDecay) {
  TensorSpec group = Constant("b", 7, 1, true);
  group.factors = {.rate = 2, .decay = 0};
  const ParameterLayout layout(
      {Constant("a", 20, 1, true), group, Constant("c", 30, 1, true)}, 1);
  const ParameterRange all = {0, 57};
  const auto grouped = Train(Parse(GetParam().with_decay), layout, all, 16, 3);
  const ParameterLayout alike({Constant("a", 57, 1, true)}, 1);
  const auto others = Train(Parse(GetParam().with_decay), alike, all, 16, 3);
  const auto fast =
      Train(Parse(GetParam().without), alike, all, 16, 3, /*rate=*/0.2);
  for (int i = 0; i < 57; ++i) {
    const bool in_b = i >= 20 && i < 27;
    EXPECT_EQ(grouped[i], in_b ? fast[i] : others[i]) << i;
  }
}

TEST_P(EveryOptimizerTest, ChunksAndRangesDoNotChangeTheBits) {
  const ParameterLayout layout(
      {Constant("a", 33, 1, true), Constant("b", 50, 1, false),
       Constant("c", 45, 1, true)},
      2);
  const proto::Optimizer job = Parse(GetParam().with_decay);
  const auto whole = Train(job, layout, {0, 128}, 128, 4);
  EXPECT_EQ(Train(job, layout, {0, 128}, 16, 4), whole);
  auto parts = Train(job, layout, layout.range(ShardId(0)), 32, 4);
  const auto rest = Train(job, layout, layout.range(ShardId(1)), 32, 4);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, whole);
}

TensorSpec Statistic(const char* name, int64_t size, double share) {
  TensorSpec tensor = Constant(name, size, 1, false);
  tensor.moving_average = share;
  return tensor;
}

TEST_P(EveryOptimizerTest, ARunningStatisticIsAveragedIn) {
  const proto::Optimizer job = Parse(GetParam().with_decay);
  const ParameterLayout layout(
      {Constant("a", 20, 1, false), Statistic("b", 7, 0.25),
       Statistic("c", 9, 0.5), Constant("d", 30, 1, false)},
      1);
  const auto got = Train(job, layout, {0, 66}, 16, 3);
  const ParameterLayout trained({Constant("a", 66, 1, false)}, 1);
  const auto plain = Train(job, trained, {0, 66}, 16, 3);
  float b = 1, c = 1;
  for (int step = 0; step < 3; ++step) {
    b += 0.25f * (0.375f - b);
    c += 0.5f * (0.375f - c);
  }
  for (int i = 0; i < 66; ++i) {
    if (i < 20 || i >= 36) {
      EXPECT_EQ(got[i], plain[i]) << i;
    } else {
      EXPECT_FLOAT_EQ(got[i], i < 27 ? b : c) << i;
    }
  }
}

TEST_P(EveryOptimizerTest, StatisticsDoNotDependOnChunksAndRangesEither) {
  const ParameterLayout layout(
      {Constant("a", 33, 1, true), Statistic("b", 50, 0.1),
       Constant("c", 45, 1, true)},
      2);
  const proto::Optimizer job = Parse(GetParam().with_decay);
  const auto whole = Train(job, layout, {0, 128}, 128, 4);
  EXPECT_EQ(Train(job, layout, {0, 128}, 16, 4), whole);
  auto parts = Train(job, layout, layout.range(ShardId(0)), 32, 4);
  const auto rest = Train(job, layout, layout.range(ShardId(1)), 32, 4);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, whole);
}

TEST(OptimizerTest, AStatisticIgnoresTheRateAndTheFactors) {
  const ParameterLayout layout({Statistic("a", 1, 0.5)}, 1);
  Optimizer optimizer(Parse("sgd { momentum: 0.9 }"), layout, {0, 1},
                      ChunkGrid(1, 16));
  const float one = 4, two = 8;
  float s = 3;
  // Weights as of two stale gradients: their sum is below 1.
  optimizer.Apply(
      {Version(1), 100, {&one, &two}, {0.125f, 0.375f}, {0.25f, 0.75f}}, 0, &s,
      &s);
  EXPECT_EQ(s, 5);
  optimizer.Apply({Version(2), 0.001, {&one}, {0.25f}, {1}}, 0, &s, &s);
  EXPECT_EQ(s, 4.5f);
}

// What is held for a checkpoint is let go when it is written, on another
// thread.
TEST(OptimizerTest, StateThatIsHeldNowAndThenTakesTwiceTheMemoryAndNoMore) {
  const ParameterLayout layout({Constant("a", 40, 1, true)}, 1);
  const ChunkGrid grid(40, 16);
  Optimizer optimizer(Parse("adam {}"), layout, {0, 40}, grid);
  const std::vector<float> gradient(40, 1.0f);
  std::vector<float> weights(40, 0.0f);
  std::set<const float*> seen;
  std::vector<AlignedFloats> others;
  for (int step = 1; step <= 20; ++step) {
    const auto held = optimizer.HoldState();
    for (const std::vector<ChunkRef>& array : held) {
      for (const ChunkRef& chunk : array) {
        seen.insert(chunk.data());
        // Would get the memory of a chunk that was freed.
        others.push_back(MakeAlignedFloats(16));
      }
    }
    for (int i = 0; i < grid.count(); ++i) {
      float* place = weights.data() + grid.begin(i);
      optimizer.Apply({Version(step), 0.1, {gradient.data()}, {1}, {1}}, i,
                      place, place);
    }
  }
  EXPECT_EQ(seen.size(), 2 * 2 * 3);
}

TEST(OptimizerTest, WhatIsAddedUpBeforeMakesTheSameBits) {
  const ParameterLayout layout(
      {Constant("a", 37, 1, true), Statistic("b", 11, 0.3)}, 1);
  const double total = 0.3f + 0.2 + 0.4;
  std::vector<std::vector<float>> g(3, std::vector<float>(48));
  std::vector<float> factors = {0.3f, 0.2f, 0.4f}, shares;
  std::mt19937 random(7);
  for (int k = 0; k < 3; ++k) {
    for (float& x : g[k]) x = std::normal_distribution<float>()(random);
    shares.push_back(Optimizer::ShareOf(factors[k], total));
  }
  const std::vector<const float*> all = {g[0].data(), g[1].data(), g[2].data()};
  const auto weights_after = [&](Optimizer* optimizer,
                                 const Optimizer::Update& update) {
    std::vector<float> weights(48, 2);
    optimizer->Apply(update, 0, weights.data(), weights.data());
    return weights;
  };
  Optimizer at_once(Parse("adam {}"), layout, {0, 48}, ChunkGrid(48, 64));
  Optimizer folded(Parse("adam {}"), layout, {0, 48}, ChunkGrid(48, 64));
  std::vector<float> sum(48);
  folded.AddUp({Version(1), 0, {all[0]}, {factors[0]}, {shares[0]}},
               sum.data());
  folded.AddUp(
      {Version(1), 0, {sum.data(), all[1]}, {1, factors[1]}, {1, shares[1]}},
      sum.data());
  EXPECT_EQ(weights_after(&folded, {Version(1),
                                    0.1,
                                    {sum.data(), all[2]},
                                    {1, factors[2]},
                                    {1, shares[2]}}),
            weights_after(&at_once, {Version(1), 0.1, all, factors, shares}));
}

TEST(OptimizerTest, WhatIsRestoredTakesThePlaceOfWhatWasThere) {
  const ParameterLayout layout({Constant("a", 40, 1, true)}, 1);
  Optimizer optimizer(Parse("sgd { momentum: 0.9 }"), layout, {0, 40},
                      ChunkGrid(40, 16));
  const float* before = optimizer.HoldState()[0][1].data();
  optimizer.Restore({std::vector<float>(40, 3.0f)});
  const auto restored = optimizer.HoldState();
  EXPECT_EQ(restored[0][1].data(), before);
  EXPECT_EQ(restored[0][1].data()[15], 3.0f);
  // But not where somebody holds it.
  optimizer.Restore({std::vector<float>(40, 5.0f)});
  EXPECT_EQ(restored[0][1].data()[15], 3.0f);
  EXPECT_EQ(optimizer.HoldState()[0][1].data()[15], 5.0f);
}

// One weight that starts at 0.
class OneWeight {
 public:
  explicit OneWeight(const std::string& job)
      : optimizer_(Parse(job), layout_, {0, 1}, ChunkGrid(1, 16)) {}

  float Apply(int64_t version, float gradient, double rate = 1) {
    optimizer_.Apply({Version(version), rate, {&gradient}, {1}, {1}}, 0,
                     &weight_, &weight_);
    return weight_;
  }
  void Reset() { optimizer_.Reset(); }

 private:
  const ParameterLayout layout_{{Constant("a", 1, 1, true)}, 1};
  Optimizer optimizer_;
  float weight_ = 0;
};

TEST(OptimizerTest, MomentumIsRememberedFromUpdateToUpdateUntilReset) {
  OneWeight weight("sgd { momentum: 0.9 }");
  weight.Apply(1, 1);
  EXPECT_EQ(weight.Apply(2, 0), -1 - 0.9f);
  weight.Reset();
  EXPECT_EQ(weight.Apply(3, 0), -1 - 0.9f);
}

TEST(OptimizerTest, AdagradStartsAtItsInitialAccumulatorAndAfterAReset) {
  OneWeight weight("adagrad { initial_accumulator: 7 }");
  EXPECT_EQ(weight.Apply(1, 3), -0.75f);
  EXPECT_EQ(weight.Apply(2, 3), -0.75f - 0.6f);  // 16 + 9 is 5 squared.
  weight.Reset();
  EXPECT_FLOAT_EQ(weight.Apply(3, 3), -1.35f - 0.75f);
}

TEST(OptimizerTest, AdamCorrectsItsBiasByTheVersionThatAnUpdateMakes) {
  for (const char* job : {"adam {}", "adamw { weight_decay: 0 }"}) {
    OneWeight first(job);
    EXPECT_FLOAT_EQ(first.Apply(1, 100, 0.5), -0.5f) << job;
    EXPECT_FLOAT_EQ(first.Apply(2, 100, 0.5), -1) << job;
    // Without correction: 0.1 g / sqrt(0.001 g^2).
    OneWeight late(job);
    EXPECT_FLOAT_EQ(late.Apply(1000000, 100, 0.5),
                    -0.5f * 0.1f / std::sqrt(0.001f))
        << job;
  }
}

TEST(OptimizerTest, AveragingIsPlainSgd) {
  OneWeight averaging("averaging {}");
  EXPECT_EQ(averaging.Apply(1, 3, 0.25), -0.75f);
  EXPECT_EQ(averaging.Apply(2, 3, 0.25), -1.5f);
}

}  // namespace
}  // namespace sluice
