#ifndef SLUICE_KERNELS_CUDA_KERNELS_QUADS_CUH_
#define SLUICE_KERNELS_CUDA_KERNELS_QUADS_CUH_

#include "kernels/cuda/kernels/launch.cuh"

// A warp's way over a row: each thread has four neighbours, then those 128
// further on, whether all four can be moved at once or not; so neither a
// sum's order nor its bits depend on that.
namespace sluice::kernels::cuda {

template <typename Type>
using StoredQuad = Group<Type, 4>;
using Quad = StoredQuad<Fp32>;

// Whether the rows of `size` numbers of an array that begins at `p` can be
// moved four at a time.
template <typename Type>
bool RowsAligned(const void* p, int64_t size) {
  return size % 4 == 0 &&
         reinterpret_cast<uintptr_t>(p) % sizeof(StoredQuad<Type>) == 0;
}

// Calls f(begin, count) for this thread's parts of [0, size), of at most four.
template <typename F>
__device__ inline void ForQuads(uint32_t size, const F& f) {
  for (uint32_t begin = 4 * (threadIdx.x % kWarp); begin < size;
       begin += 4 * kWarp) {
    f(begin, size - begin < 4 ? size - begin : 4);
  }
}

// The `count` numbers at `from`. With `vector` the row has all four. Loops of
// four keep a quad in registers.
template <typename Type>
__device__ inline Quad Load(const typename Type::Stored* from, uint32_t count,
                            bool vector) {
  Quad quad = {};
  if (vector) {
    const auto stored = *reinterpret_cast<const StoredQuad<Type>*>(from);
    for (uint32_t j = 0; j < 4; ++j) quad.v[j] = Type::Widen(stored.v[j]);
    return quad;
  }
  for (uint32_t j = 0; j < 4; ++j) {
    if (j < count) quad.v[j] = Type::Widen(from[j]);
  }
  return quad;
}

template <typename Type>
__device__ inline void Store(const Quad& quad, uint32_t count, bool vector,
                             typename Type::Stored* to) {
  if (vector) {
    StoredQuad<Type> stored;
    for (uint32_t j = 0; j < 4; ++j) stored.v[j] = Type::Narrow(quad.v[j]);
    *reinterpret_cast<StoredQuad<Type>*>(to) = stored;
    return;
  }
  for (uint32_t j = 0; j < 4; ++j) {
    if (j < count) to[j] = Type::Narrow(quad.v[j]);
  }
}

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_KERNELS_QUADS_CUH_
