#ifndef SLUICE_KERNELS_TESTING_FINITE_DIFFERENCES_H_
#define SLUICE_KERNELS_TESTING_FINITE_DIFFERENCES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "gtest/gtest.h"

// Gradients of the reference in double, checked by differences.
namespace sluice::kernels {

using Vector = std::vector<double>;

inline constexpr double kStep = 1e-5;
inline constexpr double kUnit = 1.0 / (int64_t{1} << 53);  // Of double.

// Cases larger than this take too long: a check costs two forwards for every
// element looked at.
inline constexpr int64_t kLargestSize = 3000;

// Expects d f / d v[i] to be gradient[i] for up to 16 elements, evenly spread.
//
// `scale` is the sum of the magnitudes that f adds up and `third` a bound on
// its third derivative. A central difference is off by step^2 / 6 * third and
// by the rounding of two sums, each `terms` units of `scale`, over 2 step.
inline void CheckGradient(const std::function<double()>& f, Vector* v,
                          const Vector& gradient, double scale, double terms,
                          double third, const char* what) {
  ASSERT_EQ(v->size(), gradient.size());
  const double tolerance =
      kStep * kStep / 6 * third + terms * kUnit * scale / kStep;
  const size_t stride = std::max<size_t>(1, v->size() / 16);
  for (size_t i = 0; i < v->size(); i += stride) {
    const double kept = (*v)[i];
    (*v)[i] = kept + kStep;
    const double above = f();
    (*v)[i] = kept - kStep;
    const double below = f();
    (*v)[i] = kept;
    ASSERT_NEAR((above - below) / (2 * kStep), gradient[i], tolerance)
        << what << "[" << i << "]";
  }
}

inline double Dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline double MagnitudeSum(const Vector& a) {
  double sum = 0;
  for (double v : a) sum += std::abs(v);
  return sum;
}

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_TESTING_FINITE_DIFFERENCES_H_
