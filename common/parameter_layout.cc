#include "common/parameter_layout.h"

#include <algorithm>
#include <utility>

#include "common/random.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// Cuts [0, size) at multiples of the alignment, as evenly as possible. 100
// floats on 3 shards are 7 units of 16, the last of which has 4 floats:
//
//   shard 0  [0, 32)    2 units
//   shard 1  [32, 64)   2 units
//   shard 2  [64, 100)  3 units, the last one short
//
// The larger ranges come last, so that the short unit is in one of them. Thus
// no two ranges differ by more than one unit.
std::vector<ParameterRange> CutRanges(int64_t size, int shards) {
  constexpr int64_t kUnit = ParameterLayout::kAlignment;
  const int64_t units = (size + kUnit - 1) / kUnit;
  const int64_t smaller = shards - units % shards;
  std::vector<ParameterRange> ranges(shards);
  int64_t begin = 0;
  for (int s = 0; s < shards; ++s) {
    const int64_t own = units / shards + (s >= smaller ? 1 : 0);
    const int64_t end = std::min(begin + own * kUnit, size);
    ranges[s] = {begin, end};
    begin = end;
  }
  return ranges;
}

}  // namespace

ParameterLayout::ParameterLayout(std::vector<TensorSpec> tensors, int shards)
    : tensors_(std::move(tensors)) {
  SLUICE_CHECK(shards >= 1);
  for (TensorSpec& tensor : tensors_) {
    tensor.offset = size_;
    tensor.size = 1;
    for (int64_t dimension : tensor.shape) tensor.size *= dimension;
    size_ += tensor.size;
    if (!tensor.is_statistic()) continue;
    if (statistics_.empty() || statistics_.back().end < tensor.offset) {
      statistics_.push_back({tensor.offset, tensor.offset});
    }
    statistics_.back().end = size_;
  }
  ranges_ = CutRanges(size_, shards);
  for (int s = 0; s < shards; ++s) {
    slices_.push_back({.shard = ShardId(s), .range = ranges_[s]});
  }
}

std::vector<ShardSlice> ParameterLayout::SlicesCutAt(
    const std::vector<int64_t>& cuts) const {
  std::vector<ShardSlice> cut;
  for (const ShardSlice& slice : slices_) {
    int64_t begin = slice.range.begin;
    const auto add = [&](int64_t end) {
      cut.push_back({.shard = slice.shard,
                     .range = {begin, end},
                     .offset = slice.offset + begin - slice.range.begin});
      begin = end;
    };
    for (const int64_t at : cuts) {
      if (at > begin && at < slice.range.end) add(at);
    }
    add(slice.range.end);
  }
  return cut;
}

ParameterLayout ParameterLayout::Part(ParameterRange range) const {
  std::vector<TensorSpec> tensors;
  for (const TensorSpec& tensor : tensors_) {
    if (tensor.offset < range.begin || tensor.offset >= range.end) continue;
    tensors.push_back(tensor);
  }
  ParameterLayout part(std::move(tensors), 1);
  SLUICE_CHECK(part.size() == range.size());
  part.is_part_ = true;
  part.ranges_.clear();
  part.slices_.clear();
  for (const ShardSlice& whole : slices_) {
    const int64_t begin = std::max(range.begin, whole.range.begin);
    const int64_t end = std::min(range.end, whole.range.end);
    if (begin >= end) continue;
    part.ranges_.push_back({begin - range.begin, end - range.begin});
    part.slices_.push_back({.shard = whole.shard,
                            .range = part.ranges_.back(),
                            .offset = begin - whole.range.begin});
  }
  return part;
}

std::vector<ParameterRange> ParameterLayout::trained() const {
  std::vector<ParameterRange> trained;
  int64_t begin = 0;
  for (const ParameterRange& range : statistics_) {
    if (begin < range.begin) trained.push_back({begin, range.begin});
    begin = range.end;
  }
  if (begin < size_) trained.push_back({begin, size_});
  return trained;
}

const TensorSpec& ParameterLayout::TensorAt(int64_t offset) const {
  SLUICE_CHECK(offset >= 0 && offset < size_);
  // The last tensor that begins at or before `offset`. An empty tensor before
  // it has the same offset and comes earlier.
  auto after = std::upper_bound(
      tensors_.begin(), tensors_.end(), offset,
      [](int64_t o, const TensorSpec& tensor) { return o < tensor.offset; });
  return *(after - 1);
}

std::vector<float> ParameterLayout::InitialWeights(uint64_t seed,
                                                   ParameterRange range) const {
  SLUICE_CHECK(0 <= range.begin && range.begin <= range.end &&
               range.end <= size_);
  std::vector<float> weights(range.size());
  for (const TensorSpec& tensor : tensors_) {
    const int64_t begin = std::max(range.begin, tensor.offset);
    const int64_t end = std::min(range.end, tensor.offset + tensor.size);
    const TensorInitializer& init = tensor.initializer;
    const Random random(seed, tensor.name);
    for (int64_t i = begin; i < end; ++i) {
      // In double the arithmetic is exact up to the last rounding.
      weights[i - range.begin] = static_cast<float>(
          init.kind == TensorInitializer::Kind::kConstant
              ? init.value
              : init.limit *
                    (2.0 * random.UniformFloat(i - tensor.offset) - 1));
    }
  }
  return weights;
}

}  // namespace sluice
