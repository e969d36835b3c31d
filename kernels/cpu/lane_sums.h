#ifndef SLUICE_KERNELS_CPU_LANE_SUMS_H_
#define SLUICE_KERNELS_CPU_LANE_SUMS_H_

#include <algorithm>
#include <cstdint>

namespace sluice::kernels {

// Sums over a plane or a row: so many floats side by side, which vectors hold,
// for a block; then in double. So neither a vector's width nor the compiler
// decides the order, and a float adds up at most 64 terms.
inline constexpr int kLanes = 16;
inline constexpr int64_t kLaneBlock = 64 * kLanes;

// The sum of term(i) for i in [0, size).
template <typename F>
double SumInLanes(int64_t size, F term) {
  double total = 0;
  for (int64_t i = 0; i < size;) {
    const int64_t end = std::min(i + kLaneBlock, size);
    float lanes[kLanes] = {};
    for (; i + kLanes <= end; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
    }
    for (int lane = 0; i < end; ++i, ++lane) lanes[lane] += term(i);
    for (float lane : lanes) total += lane;
  }
  return total;
}

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_CPU_LANE_SUMS_H_
