#ifndef SLUICE_KERNELS_TESTING_VECTOR_CASES_H_
#define SLUICE_KERNELS_TESTING_VECTOR_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/parameter_range.h"

// The declared cases of arithmetic on vectors.
namespace sluice::kernels {

// A vector of `size` floats and its ranges.
struct VectorCase {
  std::string name;
  int64_t size = 0;
  std::vector<ParameterRange> ranges;

  // Floats in the ranges.
  int64_t floats() const;
  // Whether float i is in one of them.
  bool Has(int64_t i) const;
};

std::vector<VectorCase> VectorCases();

// What operations are to stay within: everything, nothing, parts that begin and
// end amid ranges, and single floats.
std::vector<ParameterRange> WithinsOf(const VectorCase& c);

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_TESTING_VECTOR_CASES_H_
