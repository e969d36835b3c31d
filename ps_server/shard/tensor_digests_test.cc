#include "ps_server/shard/tensor_digests.h"

#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TensorSpec Tensor(const char* name, int64_t size) {
  TensorSpec tensor;
  tensor.name = name;
  tensor.shape = {size};
  tensor.size = size;
  return tensor;
}

// Of 40, 3 and 57 floats.
ParameterLayout Layout(int shards) {
  return ParameterLayout({Tensor("a", 40), Tensor("b", 3), Tensor("c", 57)},
                         shards);
}

std::vector<uint64_t> Digests(const ParameterLayout& layout, int shard,
                              int64_t chunk_floats,
                              const std::vector<float>& weights) {
  const ParameterRange range = layout.range(ShardId(shard));
  const ChunkGrid grid(range.size(), chunk_floats);
  WeightStore store(grid, 1);
  store.Initialize(Version(0),
                   absl::MakeSpan(weights).subspan(range.begin, range.size()));
  return TensorDigests(*store.BeginRead().snapshot, grid, layout, range);
}

std::vector<float> Counting(int64_t size) {
  std::vector<float> weights;
  for (int64_t i = 0; i < size; ++i) weights.push_back(0.5f * i);
  return weights;
}

TEST(TensorDigestsTest, EachTensorHasOneAndChunksDoNotMatter) {
  const ParameterLayout layout = Layout(1);
  const auto whole = Digests(layout, 0, 128, Counting(100));
  ASSERT_EQ(whole.size(), 3);
  EXPECT_EQ(std::set<uint64_t>(whole.begin(), whole.end()).size(), 3);
  for (const int64_t chunk : {1, 7, 16, 99}) {
    EXPECT_EQ(Digests(layout, 0, chunk, Counting(100)), whole) << chunk;
  }
}

TEST(TensorDigestsTest, OneFloatChangesItsTensorsOnly) {
  const ParameterLayout layout = Layout(1);
  const auto before = Digests(layout, 0, 16, Counting(100));
  for (const int at : {0, 39, 40, 42, 43, 99}) {
    std::vector<float> weights = Counting(100);
    weights[at] += 1;
    const auto after = Digests(layout, 0, 16, weights);
    EXPECT_EQ(after[0] != before[0], at < 40) << at;
    EXPECT_EQ(after[1] != before[1], at >= 40 && at < 43) << at;
    EXPECT_EQ(after[2] != before[2], at >= 43) << at;
  }
}

TEST(TensorDigestsTest, AShardHasThoseOfWhatItHolds) {
  const ParameterLayout layout = Layout(3);
  std::vector<std::string> names;
  for (int s = 0; s < 3; ++s) {
    const auto tensors = TensorsIn(layout, layout.range(ShardId(s)));
    EXPECT_EQ(Digests(layout, s, 16, Counting(100)).size(), tensors.size());
    for (const TensorSpec* tensor : tensors) names.push_back(tensor->name);
  }
  // Ranges [0, 32), [32, 64), [64, 100).
  EXPECT_EQ(names, (std::vector<std::string>{"a", "a", "b", "c", "c"}));
}

TEST(TensorDigestsTest, ZeroAndMinusZeroDiffer) {
  const ParameterLayout layout = Layout(1);
  std::vector<float> zeros(100);
  const auto before = Digests(layout, 0, 16, zeros);
  zeros[0] = -0.0f;
  EXPECT_NE(Digests(layout, 0, 16, zeros)[0], before[0]);
}

}  // namespace
}  // namespace sluice
