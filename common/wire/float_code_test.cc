#include "common/wire/float_code.h"

#include <hwy/targets.h>
#if defined(__SSE2__)
#include <pmmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr FloatType kShort[] = {FloatType::kBf16, FloatType::kFp16};

std::vector<uint8_t> Encoded(FloatType type, const std::vector<float>& floats) {
  std::vector<uint8_t> bytes(EncodedBytes(type, floats.size()));
  EncodeFloats(type, floats, bytes.data());
  return bytes;
}

std::vector<float> Arrived(FloatType type, const std::vector<float>& floats) {
  std::vector<float> arrived(floats.size());
  DecodeFloats(type, Encoded(type, floats).data(), absl::MakeSpan(arrived));
  return arrived;
}

// Rounds to multiples of `quantum`, ties to even, in double, which is exact
// here.
double Rounded(double x, double quantum) {
  return std::nearbyint(x / quantum) * quantum;
}

// BF16 has 8 bits of significand.
double Bf16Of(float x) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::max(std::ilogb(x), -126);
  return Rounded(x, std::ldexp(1.0, exponent - 7));
}

double Normal(double x) { return std::abs(x) < 0x1p-126 ? 0 : x; }

// FP16 has 11 bits (fewer below 2^-14) of the group's floats times 2^k.
std::vector<double> Fp16Of(const std::vector<float>& group) {
  double largest = 0;
  for (const float x : group) largest = std::max<double>(largest, std::abs(x));
  const int k =
      largest < 0x1p-126 ? 126 : std::min(14 - std::ilogb(largest), 126);
  std::vector<double> arrived;
  for (const float x : group) {
    const double scaled = std::ldexp(Normal(x), k);
    const int exponent = scaled == 0 ? -14 : std::max(std::ilogb(scaled), -14);
    arrived.push_back(Normal(
        std::ldexp(Rounded(scaled, std::ldexp(1.0, exponent - 10)), -k)));
  }
  return arrived;
}

// Floats with any bits except NaN and infinities; the floats of a group have
// similar sizes.
std::vector<float> Groups(unsigned seed, int groups) {
  std::mt19937 random(seed);
  std::vector<float> floats;
  for (int g = 0; g < groups; ++g) {
    const int top = random() % 255;
    for (int i = 0; i < kFloatGroup; ++i) {
      const int exponent = std::max<int>(top - random() % 48, 0);
      floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(
          random() % 2 << 31 | exponent << 23 | random() % (1 << 23))));
    }
  }
  return floats;
}

// Restricts Highway to these instruction sets; 0: all that the machine has.
void UseTargets(int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(FloatCodeTest, Bf16IsTheNearestWithEightBitsTiesToEven) {
  std::vector<float> floats;
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (const uint32_t low : {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff}) {
      floats.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  const std::vector<float> arrived = Arrived(FloatType::kBf16, floats);
  for (size_t i = 0; i < floats.size(); ++i) {
    if (std::isnan(floats[i])) {
      ASSERT_TRUE(std::isnan(arrived[i])) << i;
    } else {
      // Above the largest BF16 the result is an infinity, as with the cast.
      ASSERT_EQ(arrived[i], static_cast<float>(Bf16Of(floats[i]))) << floats[i];
      ASSERT_EQ(std::signbit(arrived[i]), std::signbit(floats[i]));
    }
  }
}

TEST(FloatCodeTest, Fp16IsTheNearestWithElevenBitsOfTheScaledGroup) {
  constexpr unsigned kSeed = 7;
  const std::vector<float> floats = Groups(kSeed, 20000);
  const std::vector<float> arrived = Arrived(FloatType::kFp16, floats);
  for (size_t at = 0; at < floats.size(); at += kFloatGroup) {
    const std::vector<double> expected =
        Fp16Of({floats.begin() + at, floats.begin() + at + kFloatGroup});
    for (int i = 0; i < kFloatGroup; ++i) {
      ASSERT_EQ(arrived[at + i], static_cast<float>(expected[i]))
          << "seed " << kSeed << ", " << floats[at + i] << " at " << at + i;
    }
  }
}

// Unscaled binary16 has nothing between 0 and 6e-8, nor above 65504.
TEST(FloatCodeTest, InFp16NeitherSmallNorLargeGroupsAreLost) {
  for (const float scale : {1e-30f, 1e-12f, 1.0f, 1e12f, 1e30f}) {
    const std::vector<float> floats = {scale, -3 * scale, scale / 1024};
    const std::vector<float> arrived = Arrived(FloatType::kFp16, floats);
    for (size_t i = 0; i < floats.size(); ++i) {
      // Half a unit in the last of 11 places.
      EXPECT_NEAR(arrived[i] / floats[i], 1, 0x1p-11) << scale;
    }
  }
}

TEST(FloatCodeTest, WhatIsNotFiniteStaysSoAndItsNeighboursStayFinite) {
  for (const FloatType type : kShort) {
    for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
      std::vector<float> floats(kFloatGroup, 2.5f);
      floats[5] = bad;
      const std::vector<float> arrived = Arrived(type, floats);
      EXPECT_EQ(std::isnan(arrived[5]), std::isnan(bad));
      EXPECT_EQ(std::isinf(arrived[5]), std::isinf(bad));
      EXPECT_EQ(arrived[5] < 0, bad < 0);
      for (int i = 0; i < kFloatGroup; ++i) {
        EXPECT_TRUE(i == 5 || std::isfinite(arrived[i])) << i;
      }
    }
  }
}

// Rounding may carry the largest float of an FP16 group to the next power of
// two, which changes k when it is encoded again.
TEST(FloatCodeTest, Bf16ThatHasArrivedArrivesUnchangedWhenItIsSentAgain) {
  const std::vector<float> once = Arrived(FloatType::kBf16, Groups(11, 1000));
  EXPECT_EQ(Arrived(FloatType::kBf16, once), once);
}

TEST(FloatCodeTest, AnyCountAtAnyAddressWritesItsBytesAndNoOther) {
  for (const FloatType type :
       {FloatType::kFp32, FloatType::kBf16, FloatType::kFp16}) {
    for (const size_t count : {0, 1, 15, 16, 17, 31, 32, 33, 1021}) {
      std::vector<float> floats = Groups(3, 64);
      floats.resize(count);
      const std::vector<uint8_t> expected = Encoded(type, floats);
      const std::vector<float> arrived = Arrived(type, floats);
      for (const size_t shift : {1, 2, 3}) {
        std::vector<uint8_t> bytes(expected.size() + 8, 0xab);
        EncodeFloats(type, floats, bytes.data() + shift);
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                               bytes.begin() + shift));
        EXPECT_EQ(std::count(bytes.begin(), bytes.begin() + shift, 0xab),
                  shift);
        EXPECT_EQ(std::count(bytes.begin() + shift + expected.size(),
                             bytes.end(), 0xab),
                  8 - shift);
        std::vector<float> back(count);
        DecodeFloats(type, bytes.data() + shift, absl::MakeSpan(back));
        EXPECT_EQ(back, arrived);
      }
    }
  }
}

TEST(FloatCodeTest, AVectorCutBetweenGroupsArrivesAsAWhole) {
  const std::vector<float> floats = Groups(5, 64);
  for (const FloatType type : kShort) {
    const std::vector<float> whole = Arrived(type, floats);
    std::vector<float> pieces;
    for (const size_t cut : {0, 16, 64, 1024 - 16}) {
      const size_t end = cut == 0    ? 16
                         : cut == 16 ? 64
                         : cut == 64 ? 1008
                                     : 1024;
      const std::vector<float> piece =
          Arrived(type, {floats.begin() + cut, floats.begin() + end});
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    }
    EXPECT_EQ(pieces, whole);
  }
}

// A peer may send any exponent.
TEST(FloatCodeTest, AnyExponentByteDecodes) {
  for (int k = -128; k < 128; ++k) {
    std::vector<uint8_t> bytes = Encoded(FloatType::kFp16, {1, 2, 3});
    bytes.back() = static_cast<uint8_t>(k);
    std::vector<float> floats(3);
    DecodeFloats(FloatType::kFp16, bytes.data(), absl::MakeSpan(floats));
    // 1 was encoded as 2^13.
    EXPECT_EQ(std::isfinite(floats[0]), 13 - k <= 127) << k;
  }
}

TEST(FloatCodeTest, EveryInstructionSetWritesAndReadsTheSameBits) {
  std::vector<float> floats = Groups(13, 1000);
  floats[17] = kNan;
  floats[40] = -kInfinity;
  floats.resize(15999);
  for (const FloatType type : kShort) {
    const std::vector<uint8_t> expected = Encoded(type, floats);
    std::vector<float> arrived = Arrived(type, floats);
    arrived[17] = 0;  // A NaN equals nothing.
    for (int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
      UseTargets(rest & -rest);
      EXPECT_EQ(Encoded(type, floats), expected) << rest;
      std::vector<float> by_target = Arrived(type, floats);
      by_target[17] = 0;
      EXPECT_EQ(by_target, arrived) << rest;
    }
    UseTargets(0);
  }
}

#if defined(__SSE2__)
TEST(FloatCodeTest, HowTheThreadTreatsDenormalsChangesNoBit) {
  std::vector<float> floats = Groups(17, 1000);
  for (int i = 0; i < 64; ++i) floats[i] *= 0x1p-100f;  // Many denormals.
  for (int i = 64; i < 128; ++i) {
    floats[i] = std::bit_cast<float>(static_cast<uint32_t>(i * 7919));
  }
  for (const FloatType type : kShort) {
    const std::vector<uint8_t> bytes = Encoded(type, floats);
    const std::vector<float> arrived = Arrived(type, floats);
    const unsigned before = _mm_getcsr();
    _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
    _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
    const std::vector<uint8_t> flushed_bytes = Encoded(type, floats);
    const std::vector<float> flushed = Arrived(type, floats);
    _mm_setcsr(before);
    EXPECT_EQ(flushed_bytes, bytes) << NameOf(type);
    EXPECT_EQ(std::memcmp(flushed.data(), arrived.data(),
                          arrived.size() * sizeof(float)),
              0);
  }
}
#endif

}  // namespace
}  // namespace sluice
