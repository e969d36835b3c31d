#ifndef SLUICE_KERNELS_TESTING_COMPARISON_H_
#define SLUICE_KERNELS_TESTING_COMPARISON_H_

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

// How the tests of devices compare arrays.
namespace sluice::kernels {

// Half the distance from 1 to the next float: the relative error of one
// operation.
inline constexpr double kUnit = 1.0 / (1 << 24);

// What a device's products may be off by: factors before they are multiplied,
// and results as they are stored, by a share of each, and by `tiny` where that
// is more; each sum by a share of its magnitudes' for each term. `times` says
// how often a product is rounded so on its way to y, to dx and to dw.
struct ProductRounding {
  double factor = 0;
  double tiny = 0;
  double sum = kUnit;
  struct Times {
    int y = 2;
    int dx = 2;
    int dw = 2;
  };
  Times times = {};
};

// What a device's results may be off by since they are stored in fewer bits:
// half the distance to the next number, which is a share of it, or `tiny` where
// that is more.
struct StoredRounding {
  double factor = 0;
  double tiny = 0;

  // The same of a result near `value`, by `error` off before.
  double Total(double value, double error) const {
    return error + factor * (std::abs(value) + error) + tiny;
  }
};

// Element i may be off by tolerance(i).
inline void ExpectNear(const std::vector<float>& got,
                       const std::vector<float>& want,
                       const std::function<double(size_t)>& tolerance,
                       const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::abs(static_cast<double>(got[i]) - want[i]), tolerance(i))
        << what << "[" << i << "]: got " << got[i] << ", want " << want[i];
  }
}

// Each may be off by `tolerance` before it is stored.
inline void ExpectStoredNear(const std::vector<float>& got,
                             const std::vector<float>& want, double tolerance,
                             const StoredRounding& stored,
                             const std::string& what) {
  ExpectNear(
      got, want, [&](size_t i) { return stored.Total(want[i], tolerance); },
      what);
}

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * 4) == 0);
}

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_TESTING_COMPARISON_H_
