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

// A part of a vector that one shard holds.
struct ShardSlice {
  ShardId shard;
  ParameterRange range;  // In the vector.
  int64_t offset = 0;    // Of its first float, from the start of the shard's.

  bool operator==(const ShardSlice&) const = default;
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

  // The tensors of `range` as a vector of their own, which begins with the
  // first of them: what one member of a worker reads and writes. Its shards are
  // those that hold some of it. REQUIRES: `range` begins and ends where tensors
  // do, and is not empty.
  ParameterLayout Part(ParameterRange range) const;

  // Made by Part, so that slices may end inside the shards' ranges.
  bool is_part() const { return is_part_; }

  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  int64_t size() const { return size_; }  // Floats.
  int shards() const { return static_cast<int>(ranges_.size()); }
  // Ranges differ by at most kAlignment floats, whatever the tensors' sizes. A
  // range may be empty if there are more shards than alignment units. Those of
  // a part are its slices'.
  //
  // REQUIRES: 0 <= shard < shards().
  ParameterRange range(ShardId shard) const { return ranges_[shard.value()]; }

  // What each shard holds, in the vector's order: all of a shard's range or,
  // of a part, what lies in it.
  const std::vector<ShardSlice>& slices() const { return slices_; }

  // The same cut further at `cuts`, in order, floats of the vector: what each
  // member of a worker pulls of each shard.
  std::vector<ShardSlice> SlicesCutAt(const std::vector<int64_t>& cuts) const;

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
  bool is_part_ = false;
  std::vector<ParameterRange> ranges_;
  std::vector<ShardSlice> slices_;          // With the same ranges.
  std::vector<ParameterRange> statistics_;  // Adjacent ones are joined.
};

}  // namespace sluice

#endif  // SLUICE_COMMON_PARAMETER_LAYOUT_H_
