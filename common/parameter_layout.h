#ifndef SLUICE_COMMON_PARAMETER_LAYOUT_H_
#define SLUICE_COMMON_PARAMETER_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/parameter_range.h"

namespace sluice {

// How a tensor starts at version 0: a pure function of (seed, tensor name).
struct TensorInitializer {
  enum class Kind { kConstant, kUniform };
  Kind kind = Kind::kConstant;
  double value = 0;  // kConstant: everywhere.
  double limit = 0;  // kUniform: in [-limit, limit).
};

// One named tensor of the model.
struct TensorSpec {
  std::string name;  // "conv1.weight"
  std::vector<int64_t> shape;
  int64_t offset = 0;  // Floats from the start of the flat vector.
  int64_t size = 0;    // Floats.
  TensorInitializer initializer;
  bool decay = true;  // Whether weight decay applies.
  // Of a running statistic: the share of the new value when an update averages
  // it in. Such a tensor is not trained: its slot in a gradient carries the
  // mini-batch's own value.
  std::optional<double> moving_average;

  bool is_statistic() const { return moving_average.has_value(); }
};

// The model's weights as one flat float32 vector: which tensor lies where, and
// which shard holds what. Every process derives the same layout from the job.
//
// Immutable, therefore thread-safe.
class ParameterLayout {
 public:
  // Ranges begin at multiples of this many floats (one cache line).
  static constexpr int64_t kAlignment = 16;

  // `tensors` in order; their sizes (from the shapes) and offsets (without
  // gaps) are filled in. REQUIRES: shards >= 1.
  ParameterLayout(std::vector<TensorSpec> tensors, int shards);

  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  int64_t size() const { return size_; }  // Floats.
  int shards() const { return static_cast<int>(ranges_.size()); }
  // Ranges differ by at most kAlignment floats, whatever the tensors' sizes;
  // a range may be empty when there are more shards than alignment units.
  // REQUIRES: 0 <= shard < shards().
  ParameterRange range(ShardId shard) const { return ranges_[shard.value()]; }

  // The tensor that holds the float at `offset`.
  // REQUIRES: 0 <= offset < size().
  const TensorSpec& TensorAt(int64_t offset) const;

  // The running statistics, in order, and what lies between them.
  const std::vector<ParameterRange>& statistics() const { return statistics_; }
  std::vector<ParameterRange> trained() const;

  // The initial weights of `range`, keyed by (seed, tensor name, position in
  // the tensor): the same whatever the range. REQUIRES: `range` lies in
  // [0, size()).
  std::vector<float> InitialWeights(uint64_t seed, ParameterRange range) const;

 private:
  std::vector<TensorSpec> tensors_;
  int64_t size_ = 0;
  std::vector<ParameterRange> ranges_;
  std::vector<ParameterRange> statistics_;  // Neighbours are one.
};

}  // namespace sluice

#endif  // SLUICE_COMMON_PARAMETER_LAYOUT_H_
