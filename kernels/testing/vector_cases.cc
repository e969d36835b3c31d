#include "kernels/testing/vector_cases.h"

#include <algorithm>

namespace sluice::kernels {
namespace {

// Of 1 to 12 floats, with 1 to 5 others between them, so that every one of four
// neighbours is where some begin and some end.
VectorCase ShortRanges() {
  VectorCase c = {"short ranges", 0, {}};
  for (int64_t i = 0; i < 40; ++i) {
    const int64_t begin = c.size + 1 + i % 5;
    c.size = begin + 1 + i % 12;
    c.ranges.push_back({begin, c.size});
  }
  ++c.size;
  return c;
}

// More than a block has threads, so that one must add up several parts.
VectorCase ManyRanges() {
  VectorCase c = {"many ranges", 520, {}};
  for (int64_t begin = 0; begin < c.size; begin += 2) {
    c.ranges.push_back({begin, begin + 1});
  }
  return c;
}

}  // namespace

int64_t VectorCase::floats() const {
  int64_t sum = 0;
  for (const ParameterRange& range : ranges) sum += range.size();
  return sum;
}

bool VectorCase::Has(int64_t i) const {
  return std::any_of(ranges.begin(), ranges.end(),
                     [i](const ParameterRange& range) {
                       return range.begin <= i && i < range.end;
                     });
}

std::vector<VectorCase> VectorCases() {
  return {
      {"no ranges", 5, {}},
      {"ranges of nothing", 5, {{1, 1}, {4, 4}}},
      {"one float", 1, {{0, 1}}},
      {"all of a vector", 1025, {{0, 1025}}},
      {"ranges that touch", 40, {{1, 4}, {4, 9}, {9, 33}}},
      ShortRanges(),
      ManyRanges(),
      // Around 8192 and 16384, where the CUDA device cuts them.
      {"long ranges", 20000, {{5, 8190}, {8191, 16390}, {16393, 19999}}},
      // For several threads of the CPU device.
      {"large ranges", 300003, {{1, 200000}, {200001, 300001}}},
  };
}

std::vector<ParameterRange> WithinsOf(const VectorCase& c) {
  const int64_t third = c.size / 3;
  return {{0, c.size},        {0, 0},
          {third, third},     {third, 2 * third + 1},
          {third, third + 1}, {c.size - 1, c.size}};
}

}  // namespace sluice::kernels
