#ifndef SLUICE_KERNELS_CUDA_SEQUENCES_H_
#define SLUICE_KERNELS_CUDA_SEQUENCES_H_

#include <cstdint>

#include "kernels/cuda/fast_divide.h"
#include "kernels/cuda/host_device.h"
#include "kernels/cuda/number_types.h"
#include "kernels/shapes.h"

// What a thread of the elementwise kernels over sequences does: each is number
// i of the output.
namespace sluice::kernels::cuda {

// y (samples, length, features).
struct LookUp {
  FastDivide by_features;
  FastDivide by_length;
  const float* x;
  const float* token;
  const float* position;

  SLUICE_HOST_DEVICE float operator()(uint32_t i, float, float) const {
    const uint32_t place = by_features(i), c = by_features.Rest(i, place);
    const uint32_t t = by_length.Rest(place, by_length(place));
    const uint32_t features = by_features.divisor();
    return token[static_cast<uint32_t>(x[place]) * features + c] +
           position[t * features + c];
  }
};

struct HeadDivisors {
  explicit HeadDivisors(const AttentionShape& s)
      : by_size(static_cast<uint32_t>(s.head_size)),
        by_length(static_cast<uint32_t>(s.length)),
        by_heads(static_cast<uint32_t>(s.heads)) {}

  FastDivide by_size;
  FastDivide by_length;
  FastDivide by_heads;
};

// (samples, heads, length, head_size).
template <typename Type>
struct SplitPart {
  HeadDivisors d;
  uint32_t parts;
  uint32_t part;
  // (samples, length, parts, heads, head_size)
  const typename Type::Stored* from;

  SLUICE_HOST_DEVICE float operator()(uint32_t i, float, float) const {
    const uint32_t row = d.by_size(i), c = d.by_size.Rest(i, row);
    const uint32_t head = d.by_length(row), t = d.by_length.Rest(row, head);
    const uint32_t n = d.by_heads(head), h = d.by_heads.Rest(head, n);
    const uint32_t place = (n * d.by_length.divisor() + t) * parts + part;
    const uint32_t above = place * d.by_heads.divisor() + h;
    return Type::Widen(from[above * d.by_size.divisor() + c]);
  }
};

// (samples, length, parts, heads, head_size).
struct MergeParts {
  HeadDivisors d;
  FastDivide by_parts;
  // Each (samples, heads, length, head_size); as many as there are parts.
  const float* first;
  const float* second;
  const float* third;

  SLUICE_HOST_DEVICE float operator()(uint32_t i, float, float) const {
    const uint32_t row = d.by_size(i), c = d.by_size.Rest(i, row);
    const uint32_t above = d.by_heads(row), h = d.by_heads.Rest(row, above);
    const uint32_t place = by_parts(above), part = by_parts.Rest(above, place);
    const uint32_t n = d.by_length(place), t = d.by_length.Rest(place, n);
    const float* from = part == 0 ? first : part == 1 ? second : third;
    const uint32_t head = n * d.by_heads.divisor() + h;
    return from[(head * d.by_length.divisor() + t) * d.by_size.divisor() + c];
  }
};

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_SEQUENCES_H_
