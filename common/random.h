#ifndef SLUICE_COMMON_RANDOM_H_
#define SLUICE_COMMON_RANDOM_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace sluice {

// Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel
// random numbers: as easy as 1, 2, 3"). A number is a pure function of
// (key, stream, index): the same on any machine, in any order, in any thread.
//
// All methods read the same blocks, and a block holds two 64-bit integers. So
// use a stream for one kind of number only.
//
// Immutable, therefore thread-safe.
class Random {
 public:
  // `key` is the job's seed. `stream` is the purpose of the numbers; different
  // streams give independent numbers.
  constexpr Random(uint64_t key, uint64_t stream)
      : key_(key), stream_(stream) {}
  // A stream named by text, e.g. a tensor's name.
  Random(uint64_t key, absl::string_view stream);

  // The `index`-th block of four uniform 32-bit integers.
  std::array<uint32_t, 4> Block(uint64_t index) const;
  // The `index`-th uniform 64-bit integer.
  uint64_t Uint64(uint64_t index) const;
  // The `index`-th uniform number in [0, 1), a multiple of 2^-53.
  double Uniform(uint64_t index) const;
  // The `index`-th uniform float in [0, 1), a multiple of 2^-24.
  float UniformFloat(uint64_t index) const;
  // The `index`-th standard normal number, exact to about 1e-9. It is computed
  // by Acklam's rational approximation of the inverse distribution function,
  // with sqrt and arithmetic only.
  double Normal(uint64_t index) const;

 private:
  uint64_t key_;
  uint64_t stream_;
};

// A permutation of 0..size-1 that needs no table: a four-round Feistel network
// on the next power of four, applied until the result is below `size` (Black
// and Rogaway 2002). Expected cost: fewer than four evaluations of the network.
//
// Immutable, therefore thread-safe.
class Permutation {
 public:
  // REQUIRES: size >= 1.
  Permutation(uint64_t key, uint64_t stream, uint64_t size);

  // The image of `index`. REQUIRES: index < size.
  uint64_t operator()(uint64_t index) const;

 private:
  uint64_t Encrypt(uint64_t x) const;

  Random random_;
  uint64_t size_;
  int half_bits_;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_RANDOM_H_
