#include "common/parameter_layout.h"

#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TensorSpec Uniform(const std::string& name, std::vector<int64_t> shape) {
  TensorSpec tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  tensor.initializer = {TensorInitializer::Kind::kUniform, 0, 0.25};
  return tensor;
}

TEST(ParameterLayoutTest, TensorsFollowEachOtherWithoutGaps) {
  const ParameterLayout layout({Uniform("a", {3, 5}), Uniform("b", {7})}, 1);
  EXPECT_EQ(layout.size(), 22);
  EXPECT_EQ(layout.tensors()[0].offset, 0);
  EXPECT_EQ(layout.tensors()[0].size, 15);
  EXPECT_EQ(layout.tensors()[1].offset, 15);
  EXPECT_EQ(layout.tensors()[1].size, 7);
}

TEST(ParameterLayoutTest, RangesCoverTheVectorAndDifferByAtMostOneUnit) {
  constexpr int64_t kUnit = ParameterLayout::kAlignment;
  // Every remainder of units by shards, with and without a short last unit.
  for (int64_t size = 1; size <= 12 * kUnit + 1; ++size) {
    for (int shards = 1; shards <= 14; ++shards) {
      const ParameterLayout layout({Uniform("a", {size})}, shards);
      int64_t position = 0, smallest = size, largest = 0;
      for (int s = 0; s < shards; ++s) {
        const ParameterRange range = layout.range(ShardId(s));
        ASSERT_EQ(range.begin, position);
        if (range.size() > 0) {
          ASSERT_EQ(range.begin % kUnit, 0);
        }
        position = range.end;
        smallest = std::min(smallest, range.size());
        largest = std::max(largest, range.size());
      }
      ASSERT_EQ(position, size);
      ASSERT_LE(largest - smallest, kUnit) << size << " on " << shards;
    }
  }
}

TEST(ParameterLayoutTest, TensorAtFindsTheTensorOfFirstAndLastFloat) {
  const ParameterLayout layout(
      {Uniform("a", {3, 5}), Uniform("empty", {0}), Uniform("b", {7})}, 1);
  EXPECT_EQ(layout.TensorAt(0).name, "a");
  EXPECT_EQ(layout.TensorAt(14).name, "a");
  EXPECT_EQ(layout.TensorAt(15).name, "b");
  EXPECT_EQ(layout.TensorAt(21).name, "b");
}

TEST(ParameterLayoutTest, StatisticsThatTouchAreOneRange) {
  const auto statistic = [](const std::string& name, int64_t size) {
    TensorSpec tensor = Uniform(name, {size});
    tensor.moving_average = 0.1;
    return tensor;
  };
  const ParameterLayout layout(
      {statistic("a", 2), Uniform("b", {3}), statistic("c", 4),
       statistic("d", 5), Uniform("e", {6})},
      2);
  ASSERT_EQ(layout.statistics().size(), 2);
  EXPECT_EQ(layout.statistics()[0].begin, 0);
  EXPECT_EQ(layout.statistics()[0].end, 2);
  EXPECT_EQ(layout.statistics()[1].begin, 5);
  EXPECT_EQ(layout.statistics()[1].end, 14);
  ASSERT_EQ(layout.trained().size(), 2);
  EXPECT_EQ(layout.trained()[0].begin, 2);
  EXPECT_EQ(layout.trained()[0].end, 5);
  EXPECT_EQ(layout.trained()[1].begin, 14);
  EXPECT_EQ(layout.trained()[1].end, 20);
  const ParameterLayout without({Uniform("b", {3})}, 1);
  EXPECT_TRUE(without.statistics().empty());
  ASSERT_EQ(without.trained().size(), 1);
  EXPECT_EQ(without.trained()[0].begin, 0);
  EXPECT_EQ(without.trained()[0].end, 3);
}

TEST(ParameterLayoutTest, AnInitialWeightDoesNotDependOnTheRange) {
  const ParameterLayout layout({Uniform("a", {37}), Uniform("b", {50})}, 3);
  const auto whole = layout.InitialWeights(7, {0, layout.size()});
  for (int s = 0; s < 3; ++s) {
    const ParameterRange range = layout.range(ShardId(s));
    const auto part = layout.InitialWeights(7, range);
    ASSERT_EQ(static_cast<int64_t>(part.size()), range.size());
    EXPECT_TRUE(
        std::equal(part.begin(), part.end(), whole.begin() + range.begin));
  }
}

TEST(ParameterLayoutTest, InitialWeightsAreKeyedBySeedNameAndPosition) {
  const ParameterLayout one({Uniform("a", {64}), Uniform("b", {64})}, 1);
  const ParameterLayout other({Uniform("b", {64}), Uniform("a", {64})}, 1);
  const auto x = one.InitialWeights(7, {0, 128});
  const auto y = other.InitialWeights(7, {0, 128});
  EXPECT_TRUE(std::equal(x.begin(), x.begin() + 64, y.begin() + 64));
  EXPECT_TRUE(std::equal(x.begin() + 64, x.end(), y.begin()));
  EXPECT_NE(std::vector<float>(x.begin(), x.begin() + 64),
            std::vector<float>(x.begin() + 64, x.end()));
  EXPECT_NE(x, one.InitialWeights(8, {0, 128}));
}

TEST(ParameterLayoutTest, UniformWeightsFillTheirIntervalEvenly) {
  const int64_t n = 20000;
  const ParameterLayout layout({Uniform("a", {n})}, 1);
  const auto weights = layout.InitialWeights(1, {0, n});
  double sum = 0, squares = 0;
  for (float w : weights) {
    ASSERT_GE(w, -0.25f);
    ASSERT_LT(w, 0.25f);
    sum += w;
    squares += static_cast<double>(w) * w;
  }
  // The deviation of one weight is 0.25/sqrt(3). The bound is five standard
  // errors of the mean. The variance's own relative standard error is
  // sqrt(0.8/n).
  const double variance = 0.25 * 0.25 / 3;
  EXPECT_NEAR(sum / n, 0, 5 * std::sqrt(variance / n));
  EXPECT_NEAR(squares / n, variance, 5 * variance * std::sqrt(0.8 / n));
}

TEST(ParameterLayoutTest, ConstantWeightsAreTheirValue) {
  TensorSpec tensor = Uniform("a", {5});
  tensor.initializer = {TensorInitializer::Kind::kConstant, 0.5, 0};
  EXPECT_EQ(ParameterLayout({tensor}, 1).InitialWeights(1, {0, 5}),
            std::vector<float>(5, 0.5f));
}

// Tensors of 100 and 60 floats on three shards of 48, 48 and 64; the first
// tensor ends inside the last shard's range.
TEST(ParameterLayoutTest, APartIsAVectorOfItsOwnOnTheShardsThatHoldSomeOfIt) {
  const ParameterLayout whole({Uniform("a", {100}), Uniform("b", {60})}, 3);
  const ParameterLayout first = whole.Part({0, 100});
  EXPECT_EQ(first.size(), 100);
  EXPECT_THAT(first.slices(),
              ::testing::ElementsAre(ShardSlice{ShardId(0), {0, 48}, 0},
                                     ShardSlice{ShardId(1), {48, 96}, 0},
                                     ShardSlice{ShardId(2), {96, 100}, 0}));
  const ParameterLayout second = whole.Part({100, 160});
  ASSERT_EQ(second.tensors().size(), 1);
  EXPECT_EQ(second.tensors()[0].name, "b");
  EXPECT_EQ(second.tensors()[0].offset, 0);
  EXPECT_EQ(second.shards(), 1);
  EXPECT_THAT(second.slices(),
              ::testing::ElementsAre(ShardSlice{ShardId(2), {0, 60}, 4}));
  EXPECT_TRUE(second.is_part());
  EXPECT_FALSE(whole.is_part());
}

TEST(ParameterLayoutTest, SlicesAreCutWhereMembersPartsBegin) {
  const ParameterLayout whole({Uniform("a", {100}), Uniform("b", {60})}, 2);
  EXPECT_EQ(whole.SlicesCutAt({}), whole.slices());
  EXPECT_THAT(whole.SlicesCutAt({80, 100}),
              ::testing::ElementsAre(ShardSlice{ShardId(0), {0, 80}, 0},
                                     ShardSlice{ShardId(1), {80, 100}, 0},
                                     ShardSlice{ShardId(1), {100, 160}, 20}));
}

}  // namespace
}  // namespace sluice
