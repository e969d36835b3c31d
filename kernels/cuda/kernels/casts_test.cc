// The casts to 16 bits and back, emulated. That a GPU rounds as they do is seen
// in cuda_linear_test.
#include "kernels/cuda/kernels/casts.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/random.h"
#include "gtest/gtest.h"
#include "kernels/cuda/kernels/number_types.h"

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

// An array as `images` says, with one number more behind it.
class Array {
 public:
  Array(const Images& images, int64_t offset)
      : images_(images),
        floats_(Is16Bit(images.precision) ? 0 : images.size() + 1, 0, offset),
        halves_(Is16Bit(images.precision) ? images.size() + 1 : 0, 0, offset) {}

  void* data() {
    if (Is16Bit(images_.precision)) return halves_.data();
    return floats_.data();
  }
  // Where sample n's channel c has pixel p; the last number of all where there
  // is no such sample.
  int64_t Place(int64_t n, int64_t c, int64_t p) const {
    const Images& s = images_;
    if (n == s.samples) return s.size();
    return s.channels_last ? (n * s.pixels + p) * s.channels + c
                           : (n * s.channels + c) * s.pixels + p;
  }
  float Get(int64_t i) {
    return WithType(images_.precision, [&](auto type) {
      using Stored = typename decltype(type)::Stored;
      return type.Widen(static_cast<Stored*>(data())[i]);
    });
  }
  void Set(int64_t i, float value) {
    WithType(images_.precision, [&](auto type) {
      using Stored = typename decltype(type)::Stored;
      static_cast<Stored*>(data())[i] = type.Narrow(value);
    });
  }

 private:
  const Images images_;
  Aligned16<float> floats_;
  Aligned16<uint16_t> halves_;
};

float RoundedTo(Precision precision, float value) {
  return WithType(precision, [&](auto type) {
    return static_cast<float>(type.Widen(type.Narrow(value)));
  });
}

// Converts random numbers and looks at each of the result.
void ExpectConverts(const Images& from, const Images& to) {
  const auto text = [](const Images& s) {
    return testing::Message()
           << NameOf(s.precision) << (s.channels_last ? " last " : " first ")
           << s.samples << "x" << s.channels << "x" << s.pixels;
  };
  const Random random(2, uint64_t{0});
  for (const int64_t offset : {0, 1}) {
    SCOPED_TRACE(text(from) << " to " << text(to) << ", offset " << offset);
    Array x(from, offset), y(to, 3 * offset);
    for (int64_t i = 0; i < from.size(); ++i) {
      x.Set(i, random.UniformFloat(i) - 0.5f);
    }
    constexpr float kUntouched = 17, kOld = 18;
    for (int64_t i = 0; i < to.size(); ++i) y.Set(i, kOld);
    y.Set(to.size(), kUntouched);
    ASSERT_EQ(Convert(nullptr, from, x.data(), to, y.data()), 0);
    for (int64_t n = 0; n < to.samples; ++n) {
      for (int64_t c = 0; c < to.channels; ++c) {
        for (int64_t p = 0; p < to.pixels; ++p) {
          const bool inside = n < from.samples && c < from.channels;
          const float of_x = inside ? x.Get(x.Place(n, c, p)) : 0;
          ASSERT_EQ(y.Get(y.Place(n, c, p)), RoundedTo(to.precision, of_x))
              << n << ", " << c << ", " << p;
        }
      }
    }
    EXPECT_EQ(y.Get(to.size()), kUntouched);
  }
}

constexpr Precision kNarrow[] = {Precision::kBf16, Precision::kFp16};

TEST(CastsTest, RowsGetAnotherTypeWhateverTheirAlignment) {
  for (const Precision type : kNarrow) {
    for (const int64_t size : {0, 1, 7, 8, 9, 31, 33, 2053}) {
      const Images floats = {Precision::kFp32, true, 1, size, 1};
      const Images halves = {type, true, 1, size, 1};
      ExpectConverts(floats, halves);
      ExpectConverts(halves, floats);
      ExpectConverts(halves, halves);
    }
  }
}

TEST(CastsTest, OneChannelOrOnePixelIsInTheSameOrderEitherWay) {
  for (const Precision type : kNarrow) {
    ExpectConverts({Precision::kFp32, false, 3, 1, 33}, {type, true, 3, 1, 33});
    ExpectConverts({type, true, 3, 33, 1}, {Precision::kFp32, false, 3, 33, 1});
    ExpectConverts({Precision::kFp32, false, 3, 5, 1}, {type, true, 8, 8, 1});
    ExpectConverts({type, true, 8, 8, 1}, {Precision::kFp32, false, 3, 5, 1});
  }
}

// (samples, channels, pixels) with channels first, and how many samples and
// channels there are where these are last.
struct Padding {
  int64_t samples, channels, pixels, all_samples, all_channels;
};
constexpr Padding kPaddings[] = {
    {0, 3, 4, 0, 8},
    {1, 1, 2, 1, 8},
    {2, 8, 3, 8, 8},
    {2, 6, 35, 2, 8},
    {3, 8, 32, 3, 8},
    {6, 1, 25, 8, 8},
    {10, 6, 9, 16, 8},
    {2, 64, 33, 2, 64},
    {1, 65, 31, 1, 72},
    {1, 17, 100, 1, 24},
    {2, 130, 49, 2, 136},
    // Not in packs.
    {2, 3, 70, 2, 3},
    {3, 65, 5, 3, 65},
};

TEST(CastsTest, ImagesGetTheirChannelsLastAndZerosAroundAndComeBack) {
  for (const Precision type : kNarrow) {
    for (const Padding& s : kPaddings) {
      const Images floats = {Precision::kFp32, false, s.samples, s.channels,
                             s.pixels};
      const Images last = {type, true, s.all_samples, s.all_channels, s.pixels};
      ExpectConverts(floats, last);
      ExpectConverts(last, floats);
    }
  }
}

TEST(CastsTest, ImagesChangeTheirOrderAndKeepTheirType) {
  for (const Precision type : kNarrow) {
    for (const Padding& s : kPaddings) {
      const Images first = {type, false, s.samples, s.channels, s.pixels};
      const Images last = {type, true, s.samples, s.channels, s.pixels};
      ExpectConverts(first, last);
      ExpectConverts(last, first);
    }
  }
}

TEST(CastsTest, ChannelsAreAddedAndTakenAwayWhereTheyAreLast) {
  for (const Precision type : kNarrow) {
    for (const Padding& s : kPaddings) {
      const Images few = {type, true, s.samples, s.channels, s.pixels};
      const Images all = {type, true, s.samples, s.all_channels, s.pixels};
      ExpectConverts(few, all);
      ExpectConverts(all, few);
    }
  }
}

TEST(CastsTest, ArraysAreTheSameWhereTheSameBitsMeanTheSame) {
  const Images x = {Precision::kBf16, true, 2, 3, 4};
  const auto with = [&x](auto member, auto value) {
    Images y = x;
    y.*member = value;
    return y;
  };
  EXPECT_TRUE(SameLayout(x, x));
  EXPECT_FALSE(SameLayout(x, with(&Images::precision, Precision::kFp16)));
  EXPECT_FALSE(SameLayout(x, with(&Images::precision, Precision::kFp32)));
  EXPECT_FALSE(SameLayout(x, with(&Images::channels_last, false)));
  EXPECT_FALSE(SameLayout(x, with(&Images::samples, 5)));
  EXPECT_FALSE(SameLayout(x, with(&Images::channels, 5)));
  EXPECT_TRUE(SameLayout({Precision::kFp32, false, 2, 3, 1},
                         {Precision::kTf32, true, 2, 3, 1}));
  EXPECT_TRUE(SameLayout({Precision::kFp32, false, 2, 1, 3},
                         {Precision::kFp32, true, 2, 1, 3}));
}

}  // namespace
}  // namespace sluice::kernels::cuda
