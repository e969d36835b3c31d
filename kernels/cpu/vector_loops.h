#ifndef SLUICE_KERNELS_CPU_VECTOR_LOOPS_H_
#define SLUICE_KERNELS_CPU_VECTOR_LOOPS_H_

#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

// Functions between these two are compiled for AVX2 and FMA, which every
// machine has that the CPU device computes on (MakeCpuDevice). Other headers
// are included before SLUICE_AVX2_BEGIN: what they define is also called
// elsewhere.
#define SLUICE_AVX2_BEGIN HWY_PUSH_ATTRIBUTES("avx2,fma")
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

// a b + c, rounded once. The compiler makes none of its own
// (-ffp-contract=off), so that a loop in vectors and its tail give the same
// bits.
inline Floats8 MulAdd(Floats8 a, Floats8 b, Floats8 c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline float MulAdd(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}

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
// for a block; then halves onto halves, in double from eight on. So neither a
// vector's width nor the compiler decides the order, and a float adds up at
// most 128 terms.
inline constexpr int kLanes = 2 * kVector;
inline constexpr int64_t kLaneBlock = 64 * kLanes;

inline double SumOfLanes(Floats8 low, Floats8 high) {
  const Floats8 eight = low + high;
  const __m256d four = _mm256_cvtps_pd(_mm256_castps256_ps128(eight)) +
                       _mm256_cvtps_pd(_mm256_extractf128_ps(eight, 1));
  const __m128d two =
      _mm256_castpd256_pd128(four) + _mm256_extractf128_pd(four, 1);
  return two[0] + two[1];
}

// The sums over [begin, end) of N terms each, which add(at, sums) adds to
// `sums`, an array of N.
template <int N, typename F>
std::array<double, N> SumsInLanes(int64_t begin, int64_t end, F add) {
  std::array<double, N> totals = {};
  for (int64_t i = begin; i < end;) {
    const int64_t stop = std::min(i + kLaneBlock, end);
    std::array<Floats8, N> low = {}, high = {};
    for (; i + kLanes <= stop; i += kLanes) {
      add(At<Floats8>{i}, low);
      add(At<Floats8>{i + kVector}, high);
    }
    if (i < stop) {  // Apart, so that `low` and `high` stay in registers.
      Floats8 tail[N][2] = {};
      for (int lane = 0; i < stop; ++i, ++lane) {
        std::array<float, N> terms = {};
        add(At<float>{i}, terms);
        for (int n = 0; n < N; ++n) {
          tail[n][lane / kVector][lane % kVector] = terms[n];
        }
      }
      for (int n = 0; n < N; ++n) {
        low[n] += tail[n][0];
        high[n] += tail[n][1];
      }
    }
    for (int n = 0; n < N; ++n) totals[n] += SumOfLanes(low[n], high[n]);
  }
  return totals;
}

// The sum of term(at).
template <typename F>
double SumInLanes(int64_t begin, int64_t end, F term) {
  return SumsInLanes<1>(begin, end,
                        [=](auto at, auto& sums) { sums[0] += term(at); })[0];
}

}  // namespace sluice::kernels
SLUICE_AVX2_END

#endif  // SLUICE_KERNELS_CPU_VECTOR_LOOPS_H_
