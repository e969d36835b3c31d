#ifndef SLUICE_COMMON_PARAMETER_RANGE_H_
#define SLUICE_COMMON_PARAMETER_RANGE_H_

#include <cstdint>

namespace sluice {

// A contiguous range of the flat vector, in floats: [begin, end).
struct ParameterRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }

  bool operator==(const ParameterRange&) const = default;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_PARAMETER_RANGE_H_
