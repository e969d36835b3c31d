#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/windows.h"

namespace sluice::kernels::cuda {
namespace {

uint32_t Floats(int64_t samples, int64_t size) {
  return static_cast<uint32_t>(samples * size);
}

// A warp for each plane: planes have 49 to a few hundred pixels where networks
// average over them.
__global__ void __launch_bounds__(kBlock)
    GlobalAverageKernel(uint32_t planes, uint32_t pixels, const float* x,
                        float* y) {
  const uint32_t plane = blockIdx.x * kWarpsOfBlock + threadIdx.x / kWarp;
  const uint32_t lane = threadIdx.x % kWarp;
  if (plane >= planes) return;  // The whole warp.
  Pair sum = {0, 0};
  for (uint32_t i = lane; i < pixels; i += kWarp) {
    sum.first += x[plane * pixels + i];
  }
  sum = WarpSum(sum);
  if (lane == 0) y[plane] = static_cast<float>(sum.first / pixels);
}

}  // namespace

int MaxPoolForward(Stream stream, const PoolShape& shape, int64_t samples,
                   const float* x, float* y) {
  return ForEach(stream, Floats(samples, shape.output_size()),
                 MaxForward{Windows(shape), x, y});
}

int MaxPoolBackward(Stream stream, const PoolShape& shape, int64_t samples,
                    const float* x, const float* dy, float* dx) {
  return ForEach(stream, Floats(samples, shape.input_size()),
                 MaxBackward{Windows(shape), x, dy, dx});
}

int AveragePoolForward(Stream stream, const PoolShape& shape, int64_t samples,
                       const float* x, float* y) {
  return ForEach(stream, Floats(samples, shape.output_size()),
                 AverageForward{Windows(shape), x, y});
}

int AveragePoolBackward(Stream stream, const PoolShape& shape, int64_t samples,
                        const float* dy, float* dx) {
  return ForEach(stream, Floats(samples, shape.input_size()),
                 AverageBackward{Windows(shape), dy, dx});
}

int GlobalAveragePoolForward(Stream stream, int64_t planes, int64_t pixels,
                             const float* x, float* y) {
  if (planes == 0) return 0;
  const auto count = static_cast<uint32_t>(planes);
  return Launch(GlobalAverageKernel, {Ceiling(count, kWarpsOfBlock)}, stream,
                count, static_cast<uint32_t>(pixels), x, y);
}

int GlobalAveragePoolBackward(Stream stream, int64_t planes, int64_t pixels,
                              const float* dy, float* dx) {
  const GlobalAverageBackward f = {FastDivide(static_cast<uint32_t>(pixels)),
                                   dy};
  return Map(stream, planes * pixels, f, dx, dx);
}

}  // namespace sluice::kernels::cuda
