#ifndef SLUICE_KERNELS_CUDA_KERNELS_FAST_DIVIDE_H_
#define SLUICE_KERNELS_CUDA_KERNELS_FAST_DIVIDE_H_

#include <cstdint>

#include "kernels/cuda/kernels/host_device.h"

namespace sluice::kernels::cuda {

// Division by a number that the host knows: a product, a sum and a shift in
// place of the twenty or so instructions of a division, which would cost more
// than the memory accesses beside it. Hacker's Delight, 10-9:
//
//   l = ceil(log2 d),  m = floor(2^32 (2^l - d) / d) + 1
//   floor(n / d) = (floor(m n / 2^32) + n) / 2^l
//
// The sum stays below 2^32 for n below 2^31.
class FastDivide {
 public:
  // REQUIRES: 1 <= divisor < 2^31.
  explicit FastDivide(uint32_t divisor) : divisor_(divisor) {
    while ((uint64_t{1} << shift_) < divisor) ++shift_;
    const uint64_t above = (uint64_t{1} << shift_) - divisor;
    multiplier_ = static_cast<uint32_t>((above << 32) / divisor + 1);
  }

  SLUICE_HOST_DEVICE uint32_t divisor() const { return divisor_; }
  // floor(n / divisor). REQUIRES: n < 2^31.
  SLUICE_HOST_DEVICE uint32_t operator()(uint32_t n) const {
    const auto high = static_cast<uint32_t>((uint64_t{multiplier_} * n) >> 32);
    return (high + n) >> shift_;
  }
  // The remainder, where `quotient` is known.
  SLUICE_HOST_DEVICE uint32_t Rest(uint32_t n, uint32_t quotient) const {
    return n - quotient * divisor_;
  }

 private:
  uint32_t divisor_;
  uint32_t multiplier_ = 0;
  uint32_t shift_ = 0;
};

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_KERNELS_FAST_DIVIDE_H_
