#ifndef SLUICE_KERNELS_TESTING_VECTOR_RUNS_H_
#define SLUICE_KERNELS_TESTING_VECTOR_RUNS_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/testing/vector_cases.h"

// What every device's VectorOp must do; the test of each calls these. What lies
// outside the ranges is NaN where it is not to be read.
namespace sluice::kernels {

// Scale and Add have the bits of their formulas, float by float, of each float
// within a range, and leave all others: within each of WithinsOf(c), of another
// vector and in place. The vectors begin so many floats after an aligned place.
void ExpectScaleAndAddAreTheirFormulas(Device* device, const VectorCase& c,
                                       int64_t x_offset, int64_t y_offset);

// The same, and of SumOfSquares, for a range that begins more than 2^33 floats
// behind the vector's beginning, of which nothing is there but that range.
void ExpectRangesFarBehindAreComputed(Device* device);

// Add with -rate has the bits of SgdUpdate.
void ExpectAddIsAStepOfSgd(Device* device);

// The sum of the squares of random floats, which has the same bits for the same
// case. It is within its rounding of the plain sum.
double ExpectSumOfSquares(Device* device, const VectorCase& c, int64_t offset);

// It is finite where all floats are the largest one, and not where one is NaN
// or infinite, which is the first, the last or another of each range.
void ExpectNonFiniteWhereAFloatIs(Device* device, const VectorCase& c);

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_TESTING_VECTOR_RUNS_H_
