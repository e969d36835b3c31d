#ifndef SLUICE_PS_SERVER_SHARD_SHARD_TESTING_H_
#define SLUICE_PS_SERVER_SHARD_SHARD_TESTING_H_

#include <cstdint>
#include <vector>

#include "common/grant.h"
#include "common/ids.h"
#include "common/parameter_layout.h"
#include "common/wire/payload.h"
#include "ps_server/decisions/decision.h"
#include "ps_server/shard/shard.h"

// A small shard for tests: 150 weights (100 of "fc.weight", starting at 1, and
// 50 of "fc.bias", starting at 2, without decay) in chunks of 64, 64 and 22.
namespace sluice::testing {

inline constexpr char kSecret[] = "the secret of a test";
inline constexpr int64_t kFloats = 150;

inline TensorSpec Constant(const char* name, int64_t size, double value,
                           bool decay) {
  TensorSpec tensor;
  tensor.name = name;
  tensor.shape = {size};
  tensor.size = size;
  tensor.initializer.value = value;
  tensor.factors.decay = decay ? 1 : 0;
  return tensor;
}

inline ParameterLayout SmallLayout() {
  return ParameterLayout(
      {Constant("fc.weight", 100, 1, true), Constant("fc.bias", 50, 2, false)},
      1);
}

// Version 0 from the layout's initializers.
inline auto InitializersOf(const ParameterLayout& layout) {
  return [layout](ParameterRange range) {
    return layout.InitialWeights(1, range);
  };
}

inline ShardOptions SmallOptions() {
  const ParameterLayout layout = SmallLayout();
  ShardOptions options{ShardId(0), InitializersOf(layout), layout, {}, 256, 2,
                       4};
  options.optimizer.mutable_sgd();
  return options;
}

inline GradientKey Key(int64_t sequence, int64_t worker = 0,
                       int64_t incarnation = 1) {
  return {Generation(1), WorkerId(worker), Incarnation(incarnation),
          Sequence(sequence)};
}

inline Restore FirstRestore() { return {Generation(1), Version(0), kSecret}; }

// The payload a sender of `floats` would make; views them.
inline Payload PayloadOf(const std::vector<float>& floats) {
  return Payload(
      {absl::MakeSpan(reinterpret_cast<const uint8_t*>(floats.data()),
                      floats.size() * sizeof(float))},
      ChunkChecksum(floats));
}

// `turn`: that of a grant which says one.
inline PushChunkHeader HeaderOf(const GradientKey& key, int64_t offset,
                                std::optional<int64_t> turn = std::nullopt) {
  return {key, GrantKey(kSecret).GrantFor(key, "", turn), offset,
          FloatType::kFp32};
}

}  // namespace sluice::testing

#endif  // SLUICE_PS_SERVER_SHARD_SHARD_TESTING_H_
