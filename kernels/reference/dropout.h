#ifndef SLUICE_KERNELS_REFERENCE_DROPOUT_H_
#define SLUICE_KERNELS_REFERENCE_DROPOUT_H_

#include <cstdint>

#include "common/random.h"

// The specification of dropout. Arguments as kernels::DropoutOp says, but
// `size` and `first` count numbers, not samples.
namespace sluice::kernels::reference {

// Whether element i is kept: bits_(first + i) >= rate 2^32
// y_i = x_i / (1 - rate) when it is, else 0
inline void Dropout(int64_t size, double rate, uint64_t key, int64_t first,
                    const float* x, float* y) {
  const Random random(key, uint64_t{0});
  const auto threshold = static_cast<uint32_t>(rate * 0x1p32);
  const float scale = static_cast<float>(1 / (1 - rate));
  for (int64_t i = 0; i < size; ++i) {
    const uint32_t bits = random.Block((first + i) / 4)[(first + i) % 4];
    y[i] = bits >= threshold ? scale * x[i] : 0;
  }
}

}  // namespace sluice::kernels::reference

#endif  // SLUICE_KERNELS_REFERENCE_DROPOUT_H_
