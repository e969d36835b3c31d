#ifndef SLUICE_KERNELS_CUDA_KERNELS_BLOCK_SUM_CUH_
#define SLUICE_KERNELS_CUDA_KERNELS_BLOCK_SUM_CUH_

#include "kernels/cuda/kernels/launch.cuh"

// Sums over threads, in an order that is always the same.
namespace sluice::kernels::cuda {

inline constexpr uint32_t kAllLanes = 0xffffffff;

__device__ inline Pair operator+(const Pair& a, const Pair& b) {
  return {a.first + b.first, a.second + b.second};
}

// The sum over the warp's threads, in its first one. All 32 call it.
__device__ inline Pair WarpSum(Pair value) {
  for (uint32_t step = kWarp / 2; step > 0; step /= 2) {
    const Pair other = {__shfl_down_sync(kAllLanes, value.first, step),
                        __shfl_down_sync(kAllLanes, value.second, step)};
    value = value + other;
  }
  return value;
}

// The sum over the warp's threads, in all of them: the same in each, since
// either order of two gives the same. All 32 call it.
__device__ inline Pair WarpSumInAll(Pair value) {
  for (uint32_t step = kWarp / 2; step > 0; step /= 2) {
    const Pair other = {__shfl_xor_sync(kAllLanes, value.first, step),
                        __shfl_xor_sync(kAllLanes, value.second, step)};
    value = value + other;
  }
  return value;
}

// The sum over the block's threads, in its first one. All call it, once a
// kernel.
__device__ inline Pair BlockSum(Pair value) {
  __shared__ Pair of_warp[kWarpsOfBlock];
  value = WarpSum(value);
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
  __syncthreads();
  Pair sum = {0, 0};
  if (threadIdx.x != 0) return sum;
  for (uint32_t warp = 0; warp < kWarpsOfBlock; ++warp) {
    sum = sum + of_warp[warp];
  }
  return sum;
}

// *total = the sum of `count` parts, by one block: losses.cu.
int Total(Stream stream, uint32_t count, const Pair* parts, Pair* total);

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_KERNELS_BLOCK_SUM_CUH_
