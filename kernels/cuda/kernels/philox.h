#ifndef SLUICE_KERNELS_CUDA_KERNELS_PHILOX_H_
#define SLUICE_KERNELS_CUDA_KERNELS_PHILOX_H_

#include <cstdint>

#include "kernels/cuda/kernels/host_device.h"

namespace sluice::kernels::cuda {

// A block of common/random.h's Random(key, 0), the same bits.
struct PhiloxBlock {
  uint32_t v[4];

  SLUICE_HOST_DEVICE PhiloxBlock(uint64_t key, uint64_t index) {
    uint32_t c0 = static_cast<uint32_t>(index);
    uint32_t c1 = static_cast<uint32_t>(index >> 32);
    uint32_t c2 = 0, c3 = 0;
    uint32_t k0 = static_cast<uint32_t>(key);
    uint32_t k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53} * c0;
      const uint64_t p1 = uint64_t{0xCD9E8D57} * c2;
      c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c1 = static_cast<uint32_t>(p1);
      c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c3 = static_cast<uint32_t>(p0);
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    v[0] = c0;
    v[1] = c1;
    v[2] = c2;
    v[3] = c3;
  }
};

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_KERNELS_PHILOX_H_
