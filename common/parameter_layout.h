#ifndef SLUICE_COMMON_PARAMETER_LAYOUT_H_
#define SLUICE_COMMON_PARAMETER_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/parameter_range.h"

namespace sluice {

// The initial values of a tensor: a pure function of (seed, tensor name).
struct TensorInitializer {
  enum class Kind { kConstant, kUniform };
  Kind kind = Kind::kConstant;
  double value = 0;  // For kConstant.
  double limit = 0;  // For kUniform: values are in [-limit, limit).
};

// What a tensor's learning rate and weight decay are multiplied by.
struct TensorFactors {
  double rate = 1;
  double decay = 1;  // 0: a bias or a norm's, unless its group says otherwise.

  bool operator==(const TensorFactors&) const = default;
};

// One named tensor of the model.
struct TensorSpec {
  std::string name;  // "conv1.weight"
  std::vector<int64_t> shape;
  int64_t offset = 0;  // Floats from the start of the flat vector.
  int64_t size = 0;    // Floats.
  TensorInitializer initializer;
  TensorFactors factors;
  // Only for a running statistic: the weight of the new value in the moving
  // average that an update makes. Such a tensor is not trained. Its slot in a
  // gradient holds the mini-batch's own value.
  std::optional<double> moving_average;

  bool is_statistic() const { return moving_average.has_value(); }
};

// The model's weights as one flat float32 vector: where each tensor lies, and
// which shard holds which range. Every process derives the same layout from the
// job.
//
// Immutable, therefore thread-safe.
class ParameterLayout {
 public:
  // Ranges begin at multiples of this many floats (one cache line).
  static constexpr int64_t kAlignment = 16;

  // `tensors` in order. Their sizes (from the shapes) and offsets (without
  // gaps) are filled in. REQUIRES: shards >= 1.
  ParameterLayout(std::vector<TensorSpec> tensors, int shards);

  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  int64_t size() const { return size_; }  // Floats.
  int shards() const { return static_cast<int>(ranges_.size()); }
  // Ranges differ by at most kAlignment floats, whatever the tensors' sizes. A
  // range may be empty if there are more shards than alignment units.
  // REQUIRES: 0 <= shard < shards().
  ParameterRange range(ShardId shard) const { return ranges_[shard.value()]; }

  // The tensor that holds the float at `offset`.
  // REQUIRES: 0 <= offset < size().
  const TensorSpec& TensorAt(int64_t offset) const;

  // The running statistics, in order, and the trained ranges between them.
  const std::vector<ParameterRange>& statistics() const { return statistics_; }
  std::vector<ParameterRange> trained() const;

  // The initial weights of `range`. Each is a function of (seed, tensor name,
  // position in the tensor), so it does not depend on the range. REQUIRES:
  // `range` lies in [0, size()).
  std::vector<float> InitialWeights(uint64_t seed, ParameterRange range) const;

 private:
  std::vector<TensorSpec> tensors_;
  int64_t size_ = 0;
  std::vector<ParameterRange> ranges_;
  std::vector<ParameterRange> statistics_;  // Adjacent ones are joined.
};

}  // namespace sluice

#endif  // SLUICE_COMMON_PARAMETER_LAYOUT_H_
