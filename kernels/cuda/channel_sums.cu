#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/channels.h"
#include "kernels/cuda/sequence_kernels.h"

namespace sluice::kernels::cuda {
namespace {

// Images (samples, channels, pixels), in the order of `precision`, whose
// channels are summed in parts.
struct Geometry {
  Geometry(Precision precision, int64_t n, int64_t c, int64_t p)
      : channels(static_cast<uint32_t>(c)),
        count(static_cast<uint32_t>(n * p)),
        by_pixels(static_cast<uint32_t>(PixelsOfPlane(precision, p))),
        splits(ChannelSplits::Of(count / by_pixels.divisor(),
                                 by_pixels.divisor())) {}

  uint32_t channels;
  uint32_t count;        // Numbers of a channel.
  FastDivide by_pixels;  // Those side by side.
  Splits splits;
};

// A block for each part of each channel. Neighbours in a block read
// neighbouring pixels, 4 bytes each: whole lines where planes are long, which
// need not begin at a multiple of 16 bytes.
template <typename Type, typename F>
__global__ void __launch_bounds__(kBlock)
    PlaneSumsKernel(Geometry g, F f, const typename Type::Stored* a,
                    const typename Type::Stored* b, Pair* parts) {
  const uint32_t c = blockIdx.x, begin = blockIdx.y * g.splits.size;
  const uint32_t end =
      g.count - begin < g.splits.size ? g.count : begin + g.splits.size;
  Pair sum = {0, 0};
  for (uint32_t e = begin + threadIdx.x; e < end; e += kBlock) {
    // (n channels + c) pixels + p, where e is n pixels + p.
    const uint32_t n = g.by_pixels(e);
    const uint32_t i = e + (n * (g.channels - 1) + c) * g.by_pixels.divisor();
    sum = sum + f(n, c, Type::Widen(a[i]), Type::Widen(b[i]));
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) parts[c * g.splits.parts + blockIdx.y] = sum;
}

// The same for planes of one pixel: a warp reads 32 neighbouring channels, the
// block's warps have every eighth sample.
template <typename Type, typename F>
__global__ void __launch_bounds__(kBlock)
    ColumnSumsKernel(Geometry g, F f, const typename Type::Stored* a,
                     const typename Type::Stored* b, Pair* parts) {
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
    sum = sum + f(n, c, Type::Widen(a[i]), Type::Widen(b[i]));
  }
  of_row[row][lane] = sum;
  __syncthreads();
  if (row != 0 || c >= g.channels) return;
  for (uint32_t r = 1; r < kWarpsOfBlock; ++r) sum = sum + of_row[r][lane];
  parts[c * g.splits.parts + blockIdx.y] = sum;
}

// The parts of the channels' sums over f(n, c, a[i], b[i]), of arrays of
// `Type`.
template <typename Type, typename F>
int SumsOf(Stream stream, const Geometry& g, const F& f, const void* a,
           const void* b, Pair* parts) {
  using Stored = typename Type::Stored;
  const auto* first = static_cast<const Stored*>(a);
  const auto* second = static_cast<const Stored*>(b);
  if (g.by_pixels.divisor() == 1) {
    return Launch(ColumnSumsKernel<Type, F>,
                  {Ceiling(g.channels, kWarp), g.splits.parts}, stream, g, f,
                  first, second, parts);
  }
  return Launch(PlaneSumsKernel<Type, F>, {g.channels, g.splits.parts}, stream,
                g, f, first, second, parts);
}

// The same of activations.
template <typename F>
int Sums(Stream stream, Precision precision, const Geometry& g, const F& f,
         const void* a, const void* b, Pair* parts) {
  return WithType(precision, [&](auto type) {
    return SumsOf<decltype(type)>(stream, g, f, a, b, parts);
  });
}

}  // namespace

int64_t ChannelSumParts(Precision precision, int64_t samples, int64_t channels,
                        int64_t pixels) {
  const Geometry g(precision, samples, channels, pixels);
  return int64_t{g.channels} * g.splits.parts;
}

int BiasGradient(Stream stream, Precision precision, int64_t samples,
                 int64_t channels, int64_t pixels, const void* dy, Pair* parts,
                 float* db) {
  const Geometry g(precision, samples, channels, pixels);
  const int error = Sums(stream, precision, g, FirstAsItIs{}, dy, dy, parts);
  if (error != 0) return error;
  return ForEach(stream, g.channels, FinishSum{{parts, g.splits.parts}, db});
}

int LayerNormParameterGradients(Stream stream, Precision precision,
                                int64_t rows, int64_t features, const void* x,
                                const void* dy, const float* statistics,
                                Pair* parts, float* dgamma, float* dbeta) {
  const Geometry g(precision, rows, features, 1);
  const int error =
      Sums(stream, precision, g, RowGradientSums{statistics}, x, dy, parts);
  if (error != 0) return error;
  return ForEach(stream, g.channels,
                 FinishBothSums{{parts, g.splits.parts}, dbeta, dgamma});
}

int BatchNormStatistics(Stream stream, Precision precision,
                        const BatchNormShape& shape, int64_t samples,
                        const void* x, Pair* parts, float* mean,
                        float* variance) {
  const Geometry g(precision, samples, shape.channels, shape.pixels);
  return WithType(precision, [&](auto type) {
    using Type = decltype(type);
    const PivotOf<Type> pivot = {static_cast<const typename Type::Stored*>(x),
                                 g.by_pixels.divisor()};
    const int error =
        SumsOf<Type>(stream, g, DistanceSums<Type>{pivot}, x, x, parts);
    if (error != 0) return error;
    return ForEach(stream, g.channels,
                   FinishMoments<Type>{{parts, g.splits.parts},
                                       pivot,
                                       static_cast<double>(g.count),
                                       mean,
                                       variance});
  });
}

int BatchNormApply(Stream stream, Precision precision,
                   const BatchNormShape& shape, int64_t samples, const void* x,
                   const float* gamma, const float* beta, const float* mean,
                   const float* variance, float* factor, void* y) {
  const int error =
      ForEach(stream, static_cast<uint32_t>(shape.channels),
              FactorOfChannel{gamma, variance, shape.epsilon, factor});
  if (error != 0) return error;
  const ApplyFactor apply = {ChannelOf(precision, shape.channels, shape.pixels),
                             mean, factor, beta};
  return Map(stream, precision, samples * shape.size(), apply, x, y);
}

int BatchNormBackward(Stream stream, Precision precision,
                      const BatchNormShape& shape, int64_t samples,
                      const void* x, const float* gamma, const float* mean,
                      const float* variance, const void* dy, Pair* parts,
                      float* table, void* dx, float* dgamma, float* dbeta) {
  const Geometry g(precision, samples, shape.channels, shape.pixels);
  int error = Sums(stream, precision, g, GradientSums{mean}, x, dy, parts);
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
  const ApplyGradients apply = {
      ChannelOf(precision, shape.channels, shape.pixels), mean, table};
  return Map(stream, precision, samples * shape.size(), apply, x, dy, dx);
}

}  // namespace sluice::kernels::cuda
