#ifndef SLUICE_KERNELS_CUDA_KERNELS_CASTS_H_
#define SLUICE_KERNELS_CUDA_KERNELS_CASTS_H_

#include <cstdint>

#include "kernels/cuda/kernels/kernels.h"
#include "kernels/cuda/precision.h"

// The own kernels that bring numbers to another type, as number_types.h says,
// and to another order. What kernels.h says of all holds for these.
namespace sluice::kernels::cuda {

// How an array of images lies in memory, or one of a convolution's filters,
// which are images, too: a sample for each output. Rows of numbers are images
// of one pixel.
struct Images {
  Precision precision = Precision::kFp32;  // Floats, or a type of 16 bits.
  bool channels_last = false;              // (samples, pixels, channels).
  int64_t samples = 1;
  int64_t channels = 1;
  int64_t pixels = 1;

  int64_t size() const { return samples * channels * pixels; }
  int64_t bytes() const { return size() * BytesOf(precision); }
};

// Whether the same bits stand for the same numbers.
bool SameLayout(const Images& a, const Images& b);

// y = x, the samples and channels that both have; what only y has is zero.
// REQUIRES: the same pixels, and not two types of 16 bits. Where there is more
// than one pixel, what has channels last has 16 bits, and what has them first
// as many samples and channels as the other or fewer.
int Convert(Stream stream, const Images& from, const void* x, const Images& to,
            void* y);

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_KERNELS_CASTS_H_
