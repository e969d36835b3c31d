#ifndef SLUICE_COMMON_WIRE_FLOAT_CODE_H_
#define SLUICE_COMMON_WIRE_FLOAT_CODE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/wire/float_type.h"

// Floats as bytes of each type, little-endian:
//
//   FP32  4 bytes each, as they are.
//   BF16  2 bytes each: the upper half of the float, rounded to nearest, ties
//         to even.
//   FP16  2 bytes each, then a signed byte k for each group of 16 floats, the
//         last one shorter: IEEE binary16 of x * 2^k, rounded to nearest, ties
//         to even. k brings the group's largest to below 2^15: unscaled,
//         gradients underflow (Micikevicius et al. 2018).
//
// In FP16, denormal floats are sent as zeros, and results that are denormal
// arrive as zeros. NaN and infinities stay what they are, and values above
// 3.39e38 may be rounded to an infinity. A group's bits depend on the group
// alone. So groups must begin at the same places of the vector wherever it is
// cut. The bits do not depend on the instruction set, nor on how the thread
// treats denormals.
namespace sluice {

// Floats that share an exponent in FP16.
inline constexpr int64_t kFloatGroup = 16;

// REQUIRES, for all functions: IsFloatType(type).
constexpr int64_t EncodedBytes(FloatType type, int64_t floats) {
  switch (type) {
    case FloatType::kBf16:
      return 2 * floats;
    case FloatType::kFp16:
      return 2 * floats + (floats + kFloatGroup - 1) / kFloatGroup;
    default:
      return 4 * floats;
  }
}

// Writes EncodedBytes bytes, aligned or not. The first group begins with the
// first float.
void EncodeFloats(FloatType type, absl::Span<const float> floats,
                  uint8_t* bytes);
// Reads EncodedBytes bytes.
void DecodeFloats(FloatType type, const uint8_t* bytes,
                  absl::Span<float> floats);

}  // namespace sluice

#endif  // SLUICE_COMMON_WIRE_FLOAT_CODE_H_
