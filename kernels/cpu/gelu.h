#ifndef SLUICE_KERNELS_CPU_GELU_H_
#define SLUICE_KERNELS_CPU_GELU_H_

#include <cstdint>

namespace sluice::kernels {

// gelu(x) = x P(x), where P(x) is the share of a standard normal variable that
// lies below x, of `n` floats, on the calling thread. Off by at most 2.2e-7 |x|,
// and its derivative by 2.6e-7; of minus infinity they are NaN and 0. A float's
// bits depend on itself alone, not on its place, nor on the vectors: of eight
// floats, or where `wide` is set the machine's widest. REQUIRES: the machine has
// AVX2 and FMA.
//
// y = gelu(x); `y` may be `x`.
void GeluForward(bool wide, int64_t n, const float* x, float* y);
// dx = dy gelu'(x); `dx` may be `x` or `dy`.
void GeluBackward(bool wide, int64_t n, const float* x, const float* dy,
                  float* dx);

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_CPU_GELU_H_
