#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/channels.h"

namespace sluice::kernels::cuda {
namespace {

// Arrays (samples, channels, pixels) whose channels are summed in parts.
struct Geometry {
  Geometry(int64_t n, int64_t c, int64_t p)
      : channels(static_cast<uint32_t>(c)),
        count(static_cast<uint32_t>(n * p)),
        by_pixels(static_cast<uint32_t>(p)),
        splits(ChannelSplits::Of(static_cast<uint32_t>(n),
                                 static_cast<uint32_t>(p))) {}

  uint32_t channels;
  uint32_t count;  // Numbers of a channel.
  FastDivide by_pixels;
  Splits splits;
};

// A block for each part of each channel. Neighbours in a block read
// neighbouring pixels, 4 bytes each: whole lines where planes are long, which
// need not begin at a multiple of 16 bytes.
template <typename F>
__global__ void __launch_bounds__(kBlock)
    PlaneSumsKernel(Geometry g, F f, const float* a, const float* b,
                    Pair* parts) {
  const uint32_t c = blockIdx.x, begin = blockIdx.y * g.splits.size;
  const uint32_t end =
      g.count - begin < g.splits.size ? g.count : begin + g.splits.size;
  Pair sum = {0, 0};
  for (uint32_t e = begin + threadIdx.x; e < end; e += kBlock) {
    // (n channels + c) pixels + p, where e is n pixels + p.
    const uint32_t n = g.by_pixels(e);
    const uint32_t i = e + (n * (g.channels - 1) + c) * g.by_pixels.divisor();
    sum = sum + f(n, c, a[i], b[i]);
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) parts[c * g.splits.parts + blockIdx.y] = sum;
}

// The same for planes of one pixel: a warp reads 32 neighbouring channels, the
// block's warps have every eighth sample.
template <typename F>
__global__ void __launch_bounds__(kBlock)
    ColumnSumsKernel(Geometry g, F f, const float* a, const float* b,
                     Pair* parts) {
  __shared__ Pair of_row[kWarpsOfBlock][kWarp];
  const uint32_t lane = threadIdx.x % kWarp, row = threadIdx.x / kWarp;
  const uint32_t c = blockIdx.x * kWarp + lane;
  const uint32_t begin = blockIdx.y * g.splits.size;
  const uint32_t end =
      g.count - begin < g.splits.size ? g.count : begin + g.splits.size;
  Pair sum = {0, 0};
  for (uint32_t n = begin + row; n < end && c < g.channels;
       n += kWarpsOfBlock) {
    const uint32_t i = n * g.channels + c;
    sum = sum + f(n, c, a[i], b[i]);
  }
  of_row[row][lane] = sum;
  __syncthreads();
  if (row != 0 || c >= g.channels) return;
  for (uint32_t r = 1; r < kWarpsOfBlock; ++r) sum = sum + of_row[r][lane];
  parts[c * g.splits.parts + blockIdx.y] = sum;
}

// The parts of the channels' sums over f(n, c, a[i], b[i]).
template <typename F>
int Sums(Stream stream, const Geometry& g, const F& f, const float* a,
         const float* b, Pair* parts) {
  if (g.by_pixels.divisor() == 1) {
    return Launch(ColumnSumsKernel<F>,
                  {Ceiling(g.channels, kWarp), g.splits.parts}, stream, g, f, a,
                  b, parts);
  }
  return Launch(PlaneSumsKernel<F>, {g.channels, g.splits.parts}, stream, g, f,
                a, b, parts);
}

ChannelOf Channels(const BatchNormShape& shape) {
  return {FastDivide(static_cast<uint32_t>(shape.pixels)),
          FastDivide(static_cast<uint32_t>(shape.channels))};
}

}  // namespace

int64_t ChannelSumParts(int64_t samples, int64_t channels, int64_t pixels) {
  const Geometry g(samples, channels, pixels);
  return int64_t{g.channels} * g.splits.parts;
}

int BiasGradient(Stream stream, int64_t samples, int64_t channels,
                 int64_t pixels, const float* dy, Pair* parts, float* db) {
  const Geometry g(samples, channels, pixels);
  const int error = Sums(stream, g, FirstAsItIs{}, dy, dy, parts);
  if (error != 0) return error;
  return ForEach(stream, g.channels, FinishSum{{parts, g.splits.parts}, db});
}

int LayerNormParameterGradients(Stream stream, int64_t rows, int64_t features,
                                const float* x, const float* dy,
                                const float* statistics, Pair* parts,
                                float* dgamma, float* dbeta) {
  const Geometry g(rows, features, 1);
  const int error = Sums(stream, g, RowGradientSums{statistics}, x, dy, parts);
  if (error != 0) return error;
  return ForEach(stream, g.channels,
                 FinishBothSums{{parts, g.splits.parts}, dbeta, dgamma});
}

int BatchNormStatistics(Stream stream, const BatchNormShape& shape,
                        int64_t samples, const float* x, Pair* parts,
                        float* mean, float* variance) {
  const Geometry g(samples, shape.channels, shape.pixels);
  const PivotOf pivot = {x, g.by_pixels.divisor()};
  const int error = Sums(stream, g, DistanceSums{pivot}, x, x, parts);
  if (error != 0) return error;
  return ForEach(stream, g.channels,
                 FinishMoments{{parts, g.splits.parts},
                               pivot,
                               static_cast<double>(g.count),
                               mean,
                               variance});
}

int BatchNormApply(Stream stream, const BatchNormShape& shape, int64_t samples,
                   const float* x, const float* gamma, const float* beta,
                   const float* mean, const float* variance, float* factor,
                   float* y) {
  const int error =
      ForEach(stream, static_cast<uint32_t>(shape.channels),
              FactorOfChannel{gamma, variance, shape.epsilon, factor});
  if (error != 0) return error;
  return Map(stream, samples * shape.size(),
             ApplyFactor{Channels(shape), mean, factor, beta}, x, y);
}

int BatchNormBackward(Stream stream, const BatchNormShape& shape,
                      int64_t samples, const float* x, const float* gamma,
                      const float* mean, const float* variance, const float* dy,
                      Pair* parts, float* table, float* dx, float* dgamma,
                      float* dbeta) {
  const Geometry g(samples, shape.channels, shape.pixels);
  int error = Sums(stream, g, GradientSums{mean}, x, dy, parts);
  if (error != 0) return error;
  const FinishGradients finish = {{parts, g.splits.parts},
                                  gamma,
                                  variance,
                                  shape.epsilon,
                                  static_cast<double>(g.count),
                                  g.channels,
                                  dgamma,
                                  dbeta,
                                  table};
  error = ForEach(stream, g.channels, finish);
  if (error != 0 || dx == nullptr) return error;
  return Map(stream, samples * shape.size(),
             ApplyGradients{Channels(shape), mean, table}, x, dy, dx);
}

}  // namespace sluice::kernels::cuda
