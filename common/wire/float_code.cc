// How FP16 keeps small gradients: k scales the largest float of a group of 16
// into [2^14, 2^15), the top of binary16's range. If the largest is 0.001, k is
// 24, because 0.001 * 2^24 is 16777. A float of 1e-8 in the same group becomes
// 0.17, a normal binary16 number. Unscaled it would round to 0, because
// binary16 has nothing between 0 and 6e-8.
//
// Denormals are tested for and flushed explicitly, so that the bits depend
// neither on the instruction set nor on the thread's denormal mode.
#include "common/wire/float_code.h"

#include <algorithm>
#include <bit>
#include <cstring>

// This file is compiled once for each instruction set. The first call decides
// which one runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/wire/float_code.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kGroup = kFloatGroup;

// At most as long as a group, and a power of two.
using Floats = hn::CappedTag<float, kGroup>;
using Words = hn::RebindToUnsigned<Floats>;
using Ints = hn::RebindToSigned<Floats>;
using Halves = hn::Rebind<uint16_t, Floats>;
using FloatVector = hn::Vec<Floats>;
using WordVector = hn::Vec<Words>;

constexpr uint32_t kMagnitude = 0x7fffffff;
constexpr uint32_t kSmallestNormal = 0x00800000;
constexpr uint32_t kInfinity = 0x7f800000;

// A power of two for -126 <= exponent <= 127, otherwise 0 or infinity.
HWY_INLINE FloatVector PowerOfTwo(int exponent) {
  return hn::BitCast(
      Floats(), hn::Set(Words(), static_cast<uint32_t>(127 + exponent) << 23));
}

HWY_INLINE WordVector IfAtLeast(WordVector a, uint32_t bound, WordVector yes,
                                WordVector no) {
  // Compares as signed numbers, which works because all are below 2^31.
  const Ints ints;
  const auto mask =
      hn::Gt(hn::BitCast(ints, a), hn::Set(ints, static_cast<int>(bound) - 1));
  return hn::BitCast(Words(), hn::IfThenElse(mask, hn::BitCast(ints, yes),
                                             hn::BitCast(ints, no)));
}

// Stores the lower halves of words, which are below 2^16.
HWY_INLINE void StoreHalves(WordVector words, uint16_t* to) {
  const Halves halves;
  hn::StoreU(hn::DemoteTo(halves, hn::BitCast(Ints(), words)), halves, to);
}

HWY_INLINE WordVector LoadHalves(const uint16_t* from) {
  return hn::PromoteTo(Words(), hn::LoadU(Halves(), from));
}

// ---- BF16 ----

HWY_INLINE WordVector ToBf16(WordVector x) {
  const Words words;
  const auto half = hn::ShiftRight<16>(x);
  const auto odd = hn::And(half, hn::Set(words, 1));
  const auto rounded =
      hn::ShiftRight<16>(hn::Add(x, hn::Add(odd, hn::Set(words, 0x7fff))));
  // Rounding could turn a NaN into an infinity.
  const auto quiet = hn::Or(half, hn::Set(words, 0x40));
  return IfAtLeast(hn::And(x, hn::Set(words, kMagnitude)), kInfinity + 1, quiet,
                   rounded);
}

HWY_INLINE void EncodeBf16(const uint32_t* floats, uint16_t* halves) {
  for (size_t i = 0; i < kGroup; i += hn::Lanes(Floats())) {
    StoreHalves(ToBf16(hn::LoadU(Words(), floats + i)), halves + i);
  }
}

HWY_INLINE void DecodeBf16(const uint16_t* halves, uint32_t* floats) {
  for (size_t i = 0; i < kGroup; i += hn::Lanes(Floats())) {
    hn::StoreU(hn::ShiftLeft<16>(LoadHalves(halves + i)), Words(), floats + i);
  }
}

// ---- FP16 ----

// The binary16 bits of x * scale, where `scale` is 2^k. The 13 lowest bits of
// the significand are rounded away. REQUIRES: |x| 2^k < 2^15, or x is not
// finite.
HWY_INLINE WordVector ToFp16(WordVector x, FloatVector scale) {
  const Words words;
  const Floats floats;
  const auto magnitude = hn::And(x, hn::Set(words, kMagnitude));
  const auto normal =
      IfAtLeast(magnitude, kSmallestNormal, magnitude, hn::Zero(words));
  const auto scaled = hn::Mul(hn::BitCast(floats, normal), scale);
  // Adds 2^13 times the last place that binary16 has at this size (at least
  // 2^-24). The addition then rounds the sum to the 11 bits of binary16.
  const auto exponent =
      hn::And(hn::BitCast(words, scaled), hn::Set(words, kInfinity));
  const auto least = hn::Set(words, 113u << 23);  // 2^-14
  const auto base = hn::Add(IfAtLeast(exponent, 113u << 23, exponent, least),
                            hn::Set(words, 13u << 23));
  const auto sum =
      hn::BitCast(words, hn::Add(scaled, hn::BitCast(floats, base)));
  // The last 11 bits of the sum are the significand with its hidden bit, which
  // carries into the exponent. In the denormal range the exponent is 0 and
  // there is no hidden bit.
  const auto bits = hn::Add(
      hn::ShiftRight<13>(hn::Sub(base, hn::Set(words, (113u + 13u) << 23))),
      hn::Sub(sum, base));
  const auto nan = hn::Set(words, 0x7e00);
  const auto infinite =
      IfAtLeast(magnitude, kInfinity + 1, nan, hn::Set(words, 0x7c00));
  const auto sign = hn::ShiftLeft<15>(hn::ShiftRight<31>(x));
  return hn::Or(sign, IfAtLeast(magnitude, kInfinity, infinite, bits));
}

HWY_INLINE WordVector FromFp16(WordVector half, FloatVector scale) {
  const Words words;
  const Floats floats;
  const auto magnitude = hn::And(half, hn::Set(words, 0x7fff));
  const auto denormal = hn::Mul(
      hn::ConvertTo(floats, hn::BitCast(Ints(), magnitude)), PowerOfTwo(-24));
  const auto normal =
      hn::Add(hn::ShiftLeft<13>(magnitude), hn::Set(words, 112u << 23));
  const auto value =
      IfAtLeast(magnitude, 0x400, normal, hn::BitCast(words, denormal));
  const auto scaled =
      hn::BitCast(words, hn::Mul(hn::BitCast(floats, value), scale));
  const auto kept = IfAtLeast(scaled, kSmallestNormal, scaled, hn::Zero(words));
  const auto not_finite =
      hn::Or(hn::ShiftLeft<13>(magnitude), hn::Set(words, kInfinity));
  const auto sign = hn::ShiftLeft<31>(hn::ShiftRight<15>(half));
  return hn::Or(sign, IfAtLeast(magnitude, 0x7c00, not_finite, kept));
}

// Returns k.
HWY_INLINE int EncodeFp16(const uint32_t* floats, uint16_t* halves) {
  const Words words;
  const Ints ints;
  auto largest = hn::Zero(ints);
  for (size_t i = 0; i < kGroup; i += hn::Lanes(Floats())) {
    const auto x = hn::LoadU(words, floats + i);
    largest = hn::Max(
        largest, hn::BitCast(ints, hn::And(x, hn::Set(words, kMagnitude))));
  }
  const int exponent = hn::GetLane(hn::MaxOfLanes(ints, largest)) >> 23;
  // Scales the largest to 2^14 or above; but 2^-k must be a normal float.
  const int k = std::min(127 + 14 - exponent, 126);
  for (size_t i = 0; i < kGroup; i += hn::Lanes(Floats())) {
    const auto x = hn::LoadU(words, floats + i);
    StoreHalves(ToFp16(x, PowerOfTwo(k)), halves + i);
  }
  return k;
}

HWY_INLINE void DecodeFp16(int k, const uint16_t* halves, uint32_t* floats) {
  for (size_t i = 0; i < kGroup; i += hn::Lanes(Floats())) {
    hn::StoreU(FromFp16(LoadHalves(halves + i), PowerOfTwo(-k)), Words(),
               floats + i);
  }
}

// ---- Arrays of groups ----

// Copy of a last, shorter group, padded with zeros.
struct Group {
  uint32_t floats[kGroup] = {};
  uint16_t halves[kGroup] = {};
};

template <FloatType kType>
HWY_INLINE void EncodeGroup(const uint32_t* floats, uint16_t* halves,
                            uint8_t** exponents) {
  if constexpr (kType == FloatType::kBf16) {
    EncodeBf16(floats, halves);
  } else {
    *(*exponents)++ = static_cast<uint8_t>(EncodeFp16(floats, halves));
  }
}

template <FloatType kType>
HWY_INLINE void DecodeGroup(const uint16_t* halves, const uint8_t** exponents,
                            uint32_t* floats) {
  if constexpr (kType == FloatType::kBf16) {
    DecodeBf16(halves, floats);
  } else {
    DecodeFp16(static_cast<int8_t>(*(*exponents)++), halves, floats);
  }
}

// Neither array needs to be aligned, because vectors are loaded and stored
// unaligned.
template <FloatType kType>
void Encode(const float* HWY_RESTRICT floats, size_t count,
            uint8_t* HWY_RESTRICT bytes) {
  const auto* words = reinterpret_cast<const uint32_t*>(floats);
  auto* halves = reinterpret_cast<uint16_t*>(bytes);
  uint8_t* exponents = bytes + 2 * count;
  size_t at = 0;
  for (; at + kGroup <= count; at += kGroup) {
    EncodeGroup<kType>(words + at, halves + at, &exponents);
  }
  if (at == count) return;
  Group rest;
  std::memcpy(rest.floats, floats + at, 4 * (count - at));
  EncodeGroup<kType>(rest.floats, rest.halves, &exponents);
  std::memcpy(bytes + 2 * at, rest.halves, 2 * (count - at));
}

template <FloatType kType>
void Decode(const uint8_t* HWY_RESTRICT bytes, size_t count,
            float* HWY_RESTRICT floats) {
  const auto* halves = reinterpret_cast<const uint16_t*>(bytes);
  auto* words = reinterpret_cast<uint32_t*>(floats);
  const uint8_t* exponents = bytes + 2 * count;
  size_t at = 0;
  for (; at + kGroup <= count; at += kGroup) {
    DecodeGroup<kType>(halves + at, &exponents, words + at);
  }
  if (at == count) return;
  Group rest;
  std::memcpy(rest.halves, bytes + 2 * at, 2 * (count - at));
  DecodeGroup<kType>(rest.halves, &exponents, rest.floats);
  std::memcpy(floats + at, rest.floats, 4 * (count - at));
}

void ToBf16s(const float* floats, size_t count, uint8_t* bytes) {
  Encode<FloatType::kBf16>(floats, count, bytes);
}
void ToFp16s(const float* floats, size_t count, uint8_t* bytes) {
  Encode<FloatType::kFp16>(floats, count, bytes);
}
void FromBf16s(const uint8_t* bytes, size_t count, float* floats) {
  Decode<FloatType::kBf16>(bytes, count, floats);
}
void FromFp16s(const uint8_t* bytes, size_t count, float* floats) {
  Decode<FloatType::kFp16>(bytes, count, floats);
}

}  // namespace sluice::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {

HWY_EXPORT(ToBf16s);
HWY_EXPORT(ToFp16s);
HWY_EXPORT(FromBf16s);
HWY_EXPORT(FromFp16s);

static_assert(std::endian::native == std::endian::little,
              "floats are copied as they lie");

void EncodeFloats(FloatType type, absl::Span<const float> floats,
                  uint8_t* bytes) {
  switch (type) {
    case FloatType::kBf16:
      return HWY_DYNAMIC_DISPATCH(ToBf16s)(floats.data(), floats.size(), bytes);
    case FloatType::kFp16:
      return HWY_DYNAMIC_DISPATCH(ToFp16s)(floats.data(), floats.size(), bytes);
    default:
      std::copy_n(reinterpret_cast<const uint8_t*>(floats.data()),
                  floats.size() * sizeof(float), bytes);
  }
}

void DecodeFloats(FloatType type, const uint8_t* bytes,
                  absl::Span<float> floats) {
  switch (type) {
    case FloatType::kBf16:
      return HWY_DYNAMIC_DISPATCH(FromBf16s)(bytes, floats.size(),
                                             floats.data());
    case FloatType::kFp16:
      return HWY_DYNAMIC_DISPATCH(FromFp16s)(bytes, floats.size(),
                                             floats.data());
    default:
      std::copy_n(bytes, floats.size() * sizeof(float),
                  reinterpret_cast<uint8_t*>(floats.data()));
  }
}

}  // namespace sluice
#endif  // HWY_ONCE
