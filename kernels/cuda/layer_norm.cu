#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/quads.cuh"

namespace sluice::kernels::cuda {
namespace {

// What x of a row becomes before gamma: (x - mean) inverse.
struct Row {
  float mean;
  float inverse;  // Of the deviation.
};

// The sum of the pairs f(value of a, value of b) over a row, in all the warp's
// threads.
template <typename F>
__device__ inline Pair RowSum(uint32_t size, bool vector, const float* a,
                              const float* b, const float* gamma, const F& f) {
  Pair sum = {0, 0};
  ForQuads(size, [&](uint32_t begin, uint32_t count) {
    const Quad u = Load(a + begin, count, vector);
    const Quad v = Load(b + begin, count, vector);
    const Quad w = Load(gamma + begin, count, vector);
    for (uint32_t j = 0; j < count; ++j) {
      sum = sum + f(u.v[j], v.v[j], w.v[j]);
    }
  });
  return WarpSumInAll(sum);
}

__device__ inline Row StatisticsOf(uint32_t size, bool vector, double epsilon,
                                   const float* x) {
  // What is not looked at is not read.
  const Pair total = RowSum(size, vector, x, x, x, [](float v, float, float) {
    return Pair{v, 0};
  });
  const auto mean = static_cast<float>(total.first / size);
  const Pair squares =
      RowSum(size, vector, x, x, x, [mean](float v, float, float) {
        const double distance = static_cast<double>(v) - mean;
        return Pair{distance * distance, 0};
      });
  return {mean, static_cast<float>(1 / sqrt(squares.first / size + epsilon))};
}

// A warp for each row: rows have some hundred numbers to a few thousand, so
// that a thread has four at a time of them.
__global__ void __launch_bounds__(kBlock)
    LayerNormForwardKernel(uint32_t rows, uint32_t size, double epsilon,
                           bool vector, const float* x, const float* gamma,
                           const float* beta, float* y) {
  const uint32_t row = blockIdx.x * kWarpsOfBlock + threadIdx.x / kWarp;
  if (row >= rows) return;  // The whole warp.
  const float* from = x + row * size;
  const Row of = StatisticsOf(size, vector, epsilon, from);
  ForQuads(size, [&](uint32_t begin, uint32_t count) {
    const Quad v = Load(from + begin, count, vector);
    const Quad factor = Load(gamma + begin, count, vector);
    const Quad offset = Load(beta + begin, count, vector);
    Quad result = {};
    for (uint32_t j = 0; j < count; ++j) {
      result.v[j] =
          factor.v[j] * ((v.v[j] - of.mean) * of.inverse) + offset.v[j];
    }
    Store(result, count, vector, y + row * size + begin);
  });
}

__global__ void __launch_bounds__(kBlock)
    LayerNormBackwardKernel(uint32_t rows, uint32_t size, double epsilon,
                            bool vector, const float* x, const float* gamma,
                            const float* dy, float* statistics, float* dx) {
  const uint32_t row = blockIdx.x * kWarpsOfBlock + threadIdx.x / kWarp;
  if (row >= rows) return;  // The whole warp.
  const float* from = x + row * size;
  const float* above = dy + row * size;
  const Row of = StatisticsOf(size, vector, epsilon, from);
  if (threadIdx.x % kWarp == 0) {
    statistics[2 * row] = of.mean;
    statistics[2 * row + 1] = of.inverse;
  }
  if (dx == nullptr) return;
  const Pair sums = RowSum(size, vector, from, above, gamma,
                           [of](float v, float d, float factor) {
                             const float g = factor * d;
                             const float h = (v - of.mean) * of.inverse;
                             return Pair{g, static_cast<double>(g) * h};
                           });
  const auto mean = static_cast<float>(sums.first / size);
  const auto slope = static_cast<float>(sums.second / size);
  ForQuads(size, [&](uint32_t begin, uint32_t count) {
    const Quad v = Load(from + begin, count, vector);
    const Quad d = Load(above + begin, count, vector);
    const Quad factor = Load(gamma + begin, count, vector);
    Quad result = {};
    for (uint32_t j = 0; j < count; ++j) {
      const float h = (v.v[j] - of.mean) * of.inverse;
      result.v[j] = of.inverse * ((factor.v[j] * d.v[j] - mean) - h * slope);
    }
    Store(result, count, vector, dx + row * size + begin);
  });
}

}  // namespace

int LayerNormForward(Stream stream, const LayerNormShape& shape, int64_t rows,
                     const float* x, const float* gamma, const float* beta,
                     float* y) {
  if (rows == 0) return 0;
  const int64_t size = shape.features;
  const bool vector = RowsAligned(x, size) && RowsAligned(gamma, size) &&
                      RowsAligned(beta, size) && RowsAligned(y, size);
  const auto count = static_cast<uint32_t>(rows);
  return Launch(LayerNormForwardKernel, {Ceiling(count, kWarpsOfBlock)}, stream,
                count, static_cast<uint32_t>(size), shape.epsilon, vector, x,
                gamma, beta, y);
}

int LayerNormBackward(Stream stream, const LayerNormShape& shape, int64_t rows,
                      const float* x, const float* gamma, const float* dy,
                      float* statistics, float* dx) {
  if (rows == 0) return 0;
  const int64_t size = shape.features;
  // nullptr is aligned.
  const bool vector = RowsAligned(x, size) && RowsAligned(gamma, size) &&
                      RowsAligned(dy, size) && RowsAligned(dx, size);
  const auto count = static_cast<uint32_t>(rows);
  return Launch(LayerNormBackwardKernel, {Ceiling(count, kWarpsOfBlock)},
                stream, count, static_cast<uint32_t>(size), shape.epsilon,
                vector, x, gamma, dy, statistics, dx);
}

}  // namespace sluice::kernels::cuda
