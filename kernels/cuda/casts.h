#ifndef SLUICE_KERNELS_CUDA_CASTS_H_
#define SLUICE_KERNELS_CUDA_CASTS_H_

#include <cstdint>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/precision.h"

// The own kernels that bring floats to 16 bits and back, as half.h says. What
// kernels.h says of all holds for these.
//
// REQUIRES: Is16Bit(type), and what has 16 bits is aligned to 16 bytes.
namespace sluice::kernels::cuda {

int Narrow(Stream stream, Precision type, int64_t size, const float* x,
           uint16_t* y);

// Images as (samples, channels, pixels) floats; and as 16-bit numbers with
// channels last, (all_samples, pixels, all_channels), of which what the former
// does not have is zeros. A convolution's filters are images, too: a sample for
// each output.
struct ImageShape {
  int64_t samples = 1;
  int64_t channels = 1;
  int64_t pixels = 1;
  int64_t all_samples = 1;
  int64_t all_channels = 8;  // A multiple of 8.

  int64_t floats() const { return samples * channels * pixels; }
  int64_t halves() const { return all_samples * all_channels * pixels; }
};

int ToChannelsLast(Stream stream, Precision type, const ImageShape& shape,
                   const float* x, uint16_t* y);
int FromChannelsLast(Stream stream, Precision type, const ImageShape& shape,
                     const uint16_t* x, float* y);

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_CASTS_H_
