#ifndef SLUICE_KERNELS_CUDA_VECTORS_H_
#define SLUICE_KERNELS_CUDA_VECTORS_H_

#include <cstdint>

#include "common/parameter_range.h"
#include "kernels/cuda/kernels.h"

// The own kernels over vectors of the model's size. What kernels.h says of all
// holds for these, but that a vector may have any size, and that sums are in an
// order that depends on the pieces alone.
namespace sluice::kernels::cuda {

// A vector's ranges are cut into pieces, one for each block of threads, so that
// hundreds of ranges are one launch: at the multiples of so many floats of the
// vector, so that only a range's own ends are not groups of four floats. That
// is 32 floats for a thread, eight accesses of 16 bytes: enough that starting a
// block and adding up its threads are little beside them, and few enough that a
// vector of a million floats still has a block for about each multiprocessor of
// a large GPU. A list of pieces has a 2048th of the vector's bytes.
inline constexpr int64_t kPieceFloats = 8192;

// `pieces` are in order, each of up to kPieceFloats, in device memory. Of each
// only what is `within` is read or written.

// As VectorOp's methods. `y` may be `x`.
int ScaleVector(Stream stream, int64_t count, const ParameterRange* pieces,
                ParameterRange within, float a, const float* x, float* y);
int AddVector(Stream stream, int64_t count, const ParameterRange* pieces,
              ParameterRange within, float a, const float* x, float* y);

// Into `total`, in device memory: the sum of the squares, and 0. `parts` is
// scratch, `count` of them. REQUIRES: count >= 1.
int SquaresOfVector(Stream stream, int64_t count, const ParameterRange* pieces,
                    const float* x, Pair* parts, Pair* total);

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_VECTORS_H_
