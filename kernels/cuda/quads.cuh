#ifndef SLUICE_KERNELS_CUDA_QUADS_CUH_
#define SLUICE_KERNELS_CUDA_QUADS_CUH_

#include "kernels/cuda/launch.cuh"

// A warp's way over a row: each thread has four neighbours, then those 128
// further on, whether 16 bytes at a time can be moved or not; so neither a
// sum's order nor its bits depend on that.
namespace sluice::kernels::cuda {

// Whether the rows of `size` numbers of an array that begins at `p` can be
// moved 16 bytes at a time.
inline bool RowsAligned(const float* p, int64_t size) {
  return size % 4 == 0 && Aligned(p);
}

// Calls f(begin, count) for this thread's parts of [0, size), of at most four.
template <typename F>
__device__ inline void ForQuads(uint32_t size, const F& f) {
  for (uint32_t begin = 4 * (threadIdx.x % kWarp); begin < size;
       begin += 4 * kWarp) {
    f(begin, size - begin < 4 ? size - begin : 4);
  }
}

// The `count` numbers at `from`. With `vector` the row has all four.
__device__ inline Quad Load(const float* from, uint32_t count, bool vector) {
  if (vector) return *reinterpret_cast<const Quad*>(from);
  Quad quad = {};
  for (uint32_t j = 0; j < count; ++j) quad.v[j] = from[j];
  return quad;
}

__device__ inline void Store(const Quad& quad, uint32_t count, bool vector,
                             float* to) {
  if (vector) {
    *reinterpret_cast<Quad*>(to) = quad;
    return;
  }
  for (uint32_t j = 0; j < count; ++j) to[j] = quad.v[j];
}

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_QUADS_CUH_
