// The casts to 16 bits and back, emulated. That a GPU rounds as they do is seen
// in cuda_linear_test.
#include "kernels/cuda/casts.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/random.h"
#include "gtest/gtest.h"
#include "kernels/cuda/half.h"

namespace sluice::kernels::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Values by the formulas of the two types, of the finite ones without a sign.
double Bf16Value(int bits) {
  const int exponent = bits >> 7, mantissa = bits & 0x7f;
  return exponent == 0 ? std::ldexp(mantissa, -126 - 7)
                       : std::ldexp(0x80 + mantissa, exponent - 127 - 7);
}
double Fp16Value(int bits) {
  const int exponent = bits >> 10, mantissa = bits & 0x3ff;
  return exponent == 0 ? std::ldexp(mantissa, -14 - 10)
                       : std::ldexp(0x400 + mantissa, exponent - 15 - 10);
}

// Neighbours are as far apart as the type says; what lies between them goes to
// the nearer, the middle to the even one. `infinity` is one above the largest,
// and would be its neighbour.
template <typename Half>
void ExpectRoundsToNearest(double (*value)(int), int infinity) {
  for (int low = 0; low < infinity; ++low) {
    const double a = value(low), b = value(low + 1);
    const auto exact = static_cast<float>(a);
    const auto middle = static_cast<float>((a + b) / 2);
    ASSERT_EQ(Half::Widen(low), exact) << low;
    ASSERT_EQ(Half::Widen(0x8000 | low), -exact) << low;
    const int even = low + low % 2;
    ASSERT_EQ(Half::Narrow(exact), low) << exact;
    ASSERT_EQ(Half::Narrow(middle), even) << middle;
    ASSERT_EQ(Half::Narrow(-middle), 0x8000 | even) << middle;
    ASSERT_EQ(Half::Narrow(std::nextafter(middle, 0.0f)), low) << middle;
    // The host's denormal numbers are those of the smallest steps.
    ASSERT_EQ(Half::Narrow(std::nextafter(middle, kInfinity)), low + 1)
        << middle;
  }
  EXPECT_EQ(Half::Narrow(kInfinity), infinity);
  EXPECT_EQ(Half::Narrow(std::numeric_limits<float>::max()), infinity);
  EXPECT_EQ(Half::Narrow(-kInfinity), 0x8000 | infinity);
  EXPECT_EQ(Half::Widen(infinity), kInfinity);
  EXPECT_EQ(Half::Narrow(std::nanf("")), 0x7fff);
  EXPECT_EQ(Half::Narrow(-std::nanf("")), 0x7fff);
  EXPECT_TRUE(std::isnan(Half::Widen(0x7fff)));
  EXPECT_TRUE(std::isnan(Half::Widen(infinity + 1)));
}

TEST(HalfTest, ABf16IsTheNearestOneAndEvenInTheMiddle) {
  ExpectRoundsToNearest<Bf16>(Bf16Value, 0x7f80);
}

TEST(HalfTest, AnFp16IsTheNearestOneAndEvenInTheMiddle) {
  ExpectRoundsToNearest<Fp16>(Fp16Value, 0x7c00);
}

// An array that begins `offset` numbers after a multiple of 16 bytes.
template <typename T>
class Aligned16 {
 public:
  Aligned16(int64_t size, T value, int64_t offset)
      : memory_(size + 16 + offset, value) {
    const auto at = reinterpret_cast<uintptr_t>(memory_.data()) / sizeof(T);
    constexpr int64_t kStep = 16 / sizeof(T);
    data_ = memory_.data() + (kStep - at % kStep) % kStep + offset;
  }
  T* data() { return data_; }

 private:
  std::vector<T> memory_;
  T* data_;
};

uint16_t NarrowOf(Precision type, float x) {
  return type == Precision::kBf16 ? Bf16::Narrow(x) : Fp16::Narrow(x);
}
float WidenOf(Precision type, uint16_t x) {
  return type == Precision::kBf16 ? Bf16::Widen(x) : Fp16::Widen(x);
}

constexpr uint16_t kUntouched = 0x1234;

TEST(CastsTest, EveryNumberIsNarrowedWhateverTheAlignment) {
  const Random random(1, uint64_t{0});
  for (const Precision type : {Precision::kBf16, Precision::kFp16}) {
    for (const int64_t size : {0, 1, 7, 8, 9, 31, 33, 2053}) {
      for (const int64_t offset : {0, 1, 3}) {
        Aligned16<float> x(size, 0, offset);
        Aligned16<uint16_t> y(size + 1, kUntouched, 0);
        for (int64_t i = 0; i < size; ++i) {
          x.data()[i] = random.UniformFloat(i) - 0.5f;
        }
        ASSERT_EQ(Narrow(nullptr, type, size, x.data(), y.data()), 0);
        for (int64_t i = 0; i < size; ++i) {
          ASSERT_EQ(y.data()[i], NarrowOf(type, x.data()[i])) << i;
        }
        EXPECT_EQ(y.data()[size], kUntouched);
      }
    }
  }
}

const ImageShape kImages[] = {
    // samples, channels, pixels, all samples, all channels.
    {0, 3, 4, 0, 8},    {1, 1, 1, 1, 8},      {2, 8, 1, 2, 8},
    {2, 8, 1, 8, 8},    {2, 6, 35, 2, 8},     {3, 8, 32, 3, 8},
    {6, 1, 25, 8, 8},   {10, 6, 9, 16, 8},    {2, 64, 33, 2, 64},
    {1, 65, 31, 1, 72}, {2, 130, 49, 2, 136}, {1, 17, 100, 1, 24},
};

TEST(CastsTest, ImagesGetTheirChannelsLastAndZerosAround) {
  const Random random(2, uint64_t{0});
  for (const Precision type : {Precision::kBf16, Precision::kFp16}) {
    for (const ImageShape& s : kImages) {
      SCOPED_TRACE(testing::Message()
                   << s.samples << "x" << s.channels << "x" << s.pixels);
      Aligned16<float> x(s.floats(), 0, 1);
      Aligned16<uint16_t> y(s.halves() + 1, kUntouched, 0);
      for (int64_t i = 0; i < s.floats(); ++i) {
        x.data()[i] = random.UniformFloat(i) - 0.5f;
      }
      ASSERT_EQ(ToChannelsLast(nullptr, type, s, x.data(), y.data()), 0);
      for (int64_t i = 0; i < s.halves(); ++i) {
        const int64_t c = i % s.all_channels, p = i / s.all_channels % s.pixels;
        const int64_t n = i / s.all_channels / s.pixels;
        const bool inside = n < s.samples && c < s.channels;
        ASSERT_EQ(
            y.data()[i],
            inside
                ? NarrowOf(type, x.data()[(n * s.channels + c) * s.pixels + p])
                : 0)
            << i;
      }
      EXPECT_EQ(y.data()[s.halves()], kUntouched);
    }
  }
}

TEST(CastsTest, ImagesComeBackWithoutWhatIsAround) {
  for (const Precision type : {Precision::kBf16, Precision::kFp16}) {
    for (const ImageShape& s : kImages) {
      SCOPED_TRACE(testing::Message()
                   << s.samples << "x" << s.channels << "x" << s.pixels);
      Aligned16<uint16_t> x(s.halves(), 0, 0);
      Aligned16<float> y(s.floats() + 1, -1, 1);
      for (int64_t i = 0; i < s.halves(); ++i) {
        x.data()[i] = static_cast<uint16_t>(i % 0x7c00);
      }
      ASSERT_EQ(FromChannelsLast(nullptr, type, s, x.data(), y.data()), 0);
      for (int64_t i = 0; i < s.floats(); ++i) {
        const int64_t p = i % s.pixels, c = i / s.pixels % s.channels;
        const int64_t n = i / s.pixels / s.channels;
        const uint16_t want = x.data()[(n * s.pixels + p) * s.all_channels + c];
        ASSERT_EQ(y.data()[i], WidenOf(type, want)) << i;
      }
      EXPECT_EQ(y.data()[s.floats()], -1);
    }
  }
}

}  // namespace
}  // namespace sluice::kernels::cuda
