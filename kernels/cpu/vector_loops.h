#ifndef SLUICE_KERNELS_CPU_VECTOR_LOOPS_H_
#define SLUICE_KERNELS_CPU_VECTOR_LOOPS_H_

#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

// Functions between these two are compiled for AVX2, which every machine has
// that the CPU device computes on (MakeCpuDevice); not for FMA, so that a loop
// in vectors and its tail give the same bits. Other headers are included before
// SLUICE_AVX2_BEGIN: what they define is also called elsewhere.
#define SLUICE_AVX2_BEGIN HWY_PUSH_ATTRIBUTES("avx2")
#define SLUICE_AVX2_END HWY_POP_ATTRIBUTES

SLUICE_AVX2_BEGIN
namespace sluice::kernels {

// Loops whose body is written once, for eight floats and for one:
//
//   ForEachAt(0, size, [=](auto at) { at.Put(y, factor * at(x) + 1); });
//
// Arithmetic between eight floats and one repeats the one.
using Floats8 = float __attribute__((vector_size(32)));
inline constexpr int kVector = 8;

// The floats from index i on; T is float or Floats8.
template <typename T>
struct At {
  int64_t i;

  T operator()(const float* from) const {
    T value;
    std::memcpy(&value, from + i, sizeof(value));
    return value;
  }
  void Put(float* to, T value) const {
    std::memcpy(to + i, &value, sizeof(value));
  }
};

// max(x, 0), but that NaN stays NaN.
inline Floats8 ReluOf(Floats8 x) { return x <= 0 ? Floats8{} : x; }

// Calls body(at) for [begin, end).
template <typename F>
void ForEachAt(int64_t begin, int64_t end, F body) {
  int64_t i = begin;
  for (; i + kVector <= end; i += kVector) body(At<Floats8>{i});
  for (; i < end; ++i) body(At<float>{i});
}

// Sums over a plane or a row: so many floats side by side, which vectors hold,
// for a block; then in double, halves onto halves. So neither a vector's width
// nor the compiler decides the order, and a float adds up at most 64 terms.
inline constexpr int kLanes = 2 * kVector;
inline constexpr int64_t kLaneBlock = 64 * kLanes;

inline double SumOfLanes(Floats8 low, Floats8 high) {
  const __m256d sums = (_mm256_cvtps_pd(_mm256_castps256_ps128(low)) +
                        _mm256_cvtps_pd(_mm256_castps256_ps128(high))) +
                       (_mm256_cvtps_pd(_mm256_extractf128_ps(low, 1)) +
                        _mm256_cvtps_pd(_mm256_extractf128_ps(high, 1)));
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

// The sums of what terms(at), an array of N, is for [begin, end).
template <int N, typename F>
std::array<double, N> SumsInLanes(int64_t begin, int64_t end, F terms) {
  std::array<double, N> totals = {};
  for (int64_t i = begin; i < end;) {
    const int64_t stop = std::min(i + kLaneBlock, end);
    Floats8 lanes[N][2] = {};
    for (; i + kLanes <= stop; i += kLanes) {
      for (int half = 0; half < 2; ++half) {
        const auto more = terms(At<Floats8>{i + half * kVector});
        for (int n = 0; n < N; ++n) lanes[n][half] += more[n];
      }
    }
    if (i < stop) {  // Apart, so that `lanes` stay in registers.
      Floats8 tail[N][2] = {};
      for (int lane = 0; i < stop; ++i, ++lane) {
        const auto more = terms(At<float>{i});
        for (int n = 0; n < N; ++n) {
          tail[n][lane / kVector][lane % kVector] = more[n];
        }
      }
      for (int n = 0; n < N; ++n) {
        for (int half = 0; half < 2; ++half) lanes[n][half] += tail[n][half];
      }
    }
    for (int n = 0; n < N; ++n) {
      totals[n] += SumOfLanes(lanes[n][0], lanes[n][1]);
    }
  }
  return totals;
}

// The sum of term(at).
template <typename F>
double SumInLanes(int64_t begin, int64_t end, F term) {
  return SumsInLanes<1>(begin, end,
                        [=](auto at) { return std::array{term(at)}; })[0];
}

}  // namespace sluice::kernels
SLUICE_AVX2_END

#endif  // SLUICE_KERNELS_CPU_VECTOR_LOOPS_H_
