#ifndef SLUICE_KERNELS_TESTING_OP_RUNS_H_
#define SLUICE_KERNELS_TESTING_OP_RUNS_H_

#include <vector>

#include "kernels/testing/comparison.h"
#include "kernels/testing/op_cases.h"

// What a case's operation is given and what it makes of it, in host memory. The
// test of each device executes it in that device's way.
namespace sluice::kernels {

struct LinearRun {
  std::vector<float> x, w, b, dy;
  std::vector<float> y, dx, dw, db;
};

// Inputs in [-1, 1); outputs empty.
LinearRun LinearArguments(const LinearCase& c);

// The absolute values of a run's inputs: of these the operation makes the sum
// of the magnitudes of what it adds up.
LinearRun MagnitudesOf(const LinearRun& run);

// A sum of m products in any order is off by at most m units of the sum of
// their magnitudes (Higham, Accuracy and Stability, 3.1; one more for the
// rounding of the reference); a product by what its factors are, and what it is
// stored as. `want` and `magnitudes` are the reference's.
void ExpectWithinRounding(const LinearCase& c, const LinearRun& got,
                          const LinearRun& want, const LinearRun& magnitudes,
                          const ProductRounding& rounding = {});

void ExpectSameBits(const LinearRun& a, const LinearRun& b);

// The bits of a case with relu must be those of the case `without`, but for y,
// which is its relu.
void ExpectReluOf(const LinearRun& without, const LinearRun& with);

struct BatchNormRun {
  std::vector<float> x, gamma, beta, dy;
  std::vector<float> mean, variance, y, dx, dgamma, dbeta;
};

// |x| < 2, the others in [-1, 1); outputs empty.
BatchNormRun BatchNormArguments(const BatchNormCase& c);

void ExpectSameBits(const BatchNormRun& a, const BatchNormRun& b);

// As for a LinearRun.
void ExpectReluOf(const BatchNormRun& without, const BatchNormRun& with);

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_TESTING_OP_RUNS_H_
