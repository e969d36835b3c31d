#include "kernels/cuda/channel_sums.cuh"
#include "kernels/cuda/channels.h"
#include "kernels/cuda/quads.cuh"
#include "kernels/cuda/sequence_kernels.h"

namespace sluice::kernels::cuda {
namespace {

// What x of a row becomes before gamma: (x - mean) inverse.
struct Row {
  float mean;
  float inverse;  // Of the deviation.
};

// The sum of the pairs f(value of a, of b, of c) over a row, in all the warp's
// threads; c is an array of `Other`.
template <typename Type, typename Other, typename F>
__device__ inline Pair RowSum(uint32_t size, bool vector,
                              const typename Type::Stored* a,
                              const typename Type::Stored* b,
                              const typename Other::Stored* c, const F& f) {
  Pair sum = {0, 0};
  ForQuads(size, [&](uint32_t begin, uint32_t count) {
    const Quad u = Load<Type>(a + begin, count, vector);
    const Quad v = Load<Type>(b + begin, count, vector);
    const Quad w = Load<Other>(c + begin, count, vector);
    for (uint32_t j = 0; j < count; ++j) {
      sum = sum + f(u.v[j], v.v[j], w.v[j]);
    }
  });
  return WarpSumInAll(sum);
}

template <typename Type>
__device__ inline Row StatisticsOf(uint32_t size, bool vector, double epsilon,
                                   const typename Type::Stored* x) {
  // What is not looked at is not read.
  const Pair total =
      RowSum<Type, Type>(size, vector, x, x, x, [](float v, float, float) {
        return Pair{v, 0};
      });
  const auto mean = static_cast<float>(total.first / size);
  const Pair squares =
      RowSum<Type, Type>(size, vector, x, x, x, [mean](float v, float, float) {
        const double distance = static_cast<double>(v) - mean;
        return Pair{distance * distance, 0};
      });
  return {mean, static_cast<float>(1 / sqrt(squares.first / size + epsilon))};
}

// A warp for each row: rows have some hundred numbers to a few thousand, so
// that a thread has four at a time of them.
template <typename Type>
__global__ void __launch_bounds__(kBlock)
    LayerNormForwardKernel(uint32_t rows, uint32_t size, double epsilon,
                           bool vector, const typename Type::Stored* x,
                           const float* gamma, const float* beta,
                           typename Type::Stored* y) {
  const uint32_t row = blockIdx.x * kWarpsOfBlock + threadIdx.x / kWarp;
  if (row >= rows) return;  // The whole warp.
  const auto* from = x + row * size;
  const Row of = StatisticsOf<Type>(size, vector, epsilon, from);
  ForQuads(size, [&](uint32_t begin, uint32_t count) {
    const Quad v = Load<Type>(from + begin, count, vector);
    const Quad factor = Load<Fp32>(gamma + begin, count, vector);
    const Quad offset = Load<Fp32>(beta + begin, count, vector);
    Quad result = {};
    for (uint32_t j = 0; j < count; ++j) {
      result.v[j] =
          factor.v[j] * ((v.v[j] - of.mean) * of.inverse) + offset.v[j];
    }
    Store<Type>(result, count, vector, y + row * size + begin);
  });
}

template <typename Type>
__global__ void __launch_bounds__(kBlock)
    LayerNormBackwardKernel(uint32_t rows, uint32_t size, double epsilon,
                            bool vector, const typename Type::Stored* x,
                            const float* gamma, const typename Type::Stored* dy,
                            Row* statistics, typename Type::Stored* dx) {
  const uint32_t row = blockIdx.x * kWarpsOfBlock + threadIdx.x / kWarp;
  if (row >= rows) return;  // The whole warp.
  const auto* from = x + row * size;
  const auto* above = dy + row * size;
  const Row of = StatisticsOf<Type>(size, vector, epsilon, from);
  if (threadIdx.x % kWarp == 0) statistics[row] = of;
  if (dx == nullptr) return;
  const Pair sums = RowSum<Type, Fp32>(
      size, vector, from, above, gamma, [of](float v, float d, float factor) {
        const float g = factor * d;
        const float h = (v - of.mean) * of.inverse;
        return Pair{g, static_cast<double>(g) * h};
      });
  const auto mean = static_cast<float>(sums.first / size);
  const auto slope = static_cast<float>(sums.second / size);
  ForQuads(size, [&](uint32_t begin, uint32_t count) {
    const Quad v = Load<Type>(from + begin, count, vector);
    const Quad d = Load<Type>(above + begin, count, vector);
    const Quad factor = Load<Fp32>(gamma + begin, count, vector);
    Quad result = {};
    for (uint32_t j = 0; j < count; ++j) {
      const float h = (v.v[j] - of.mean) * of.inverse;
      result.v[j] = of.inverse * ((factor.v[j] * d.v[j] - mean) - h * slope);
    }
    Store<Type>(result, count, vector, dx + row * size + begin);
  });
}

// dy, and dy times what x became before gamma. Samples are rows, channels their
// features.
struct RowGradientSums {
  const Row* statistics;
  SLUICE_HOST_DEVICE Nothing At(uint32_t) const { return {}; }
  SLUICE_HOST_DEVICE Pair operator()(Nothing, uint32_t n, float x,
                                     float dy) const {
    const Row of = statistics[n];
    return {dy, static_cast<double>(dy) * ((x - of.mean) * of.inverse)};
  }
};

}  // namespace

int LayerNormForward(Stream stream, Precision precision,
                     const LayerNormShape& shape, int64_t samples,
                     const void* x, const float* gamma, const float* beta,
                     void* y) {
  if (samples == 0) return 0;
  const int64_t size = shape.features;
  const auto rows = static_cast<uint32_t>(samples * shape.rows);
  return WithType(precision, [&](auto type) {
    using Type = decltype(type);
    using Stored = typename Type::Stored;
    const bool vector =
        RowsAligned<Type>(x, size) && RowsAligned<Fp32>(gamma, size) &&
        RowsAligned<Fp32>(beta, size) && RowsAligned<Type>(y, size);
    return Launch(LayerNormForwardKernel<Type>, {Ceiling(rows, kWarpsOfBlock)},
                  stream, rows, static_cast<uint32_t>(size), shape.epsilon,
                  vector, static_cast<const Stored*>(x), gamma, beta,
                  static_cast<Stored*>(y));
  });
}

int64_t LayerNormScratch(Precision precision, const LayerNormShape& shape,
                         int64_t samples) {
  const int64_t rows = samples * shape.rows;
  const int64_t parts = ChannelSumParts(precision, rows, shape.features, 1);
  return parts * sizeof(Pair) + rows * sizeof(Row);
}

int LayerNormBackward(Stream stream, Precision precision,
                      const LayerNormShape& shape, int64_t samples,
                      const void* x, const float* gamma, const void* dy,
                      void* scratch, void* dx, float* dgamma, float* dbeta) {
  const int64_t size = shape.features;
  const auto rows = static_cast<uint32_t>(samples * shape.rows);
  const ChannelGeometry g(precision, rows, size, 1);
  auto* const parts = static_cast<Pair*>(scratch);
  auto* const statistics =
      reinterpret_cast<Row*>(parts + int64_t{g.channels} * g.splits.parts);
  int error = WithType(precision, [&](auto type) {
    using Type = decltype(type);
    using Stored = typename Type::Stored;
    // nullptr is aligned.
    const bool vector =
        RowsAligned<Type>(x, size) && RowsAligned<Fp32>(gamma, size) &&
        RowsAligned<Type>(dy, size) && RowsAligned<Type>(dx, size);
    return Launch(LayerNormBackwardKernel<Type>, {Ceiling(rows, kWarpsOfBlock)},
                  stream, rows, static_cast<uint32_t>(size), shape.epsilon,
                  vector, static_cast<const Stored*>(x), gamma,
                  static_cast<const Stored*>(dy), statistics,
                  static_cast<Stored*>(dx));
  });
  if (error != 0) return error;
  error = Sums(stream, precision, g, RowGradientSums{statistics}, x, dy, parts);
  if (error != 0) return error;
  return Finish(stream, g, parts, FinishBothSums{dbeta, dgamma});
}

}  // namespace sluice::kernels::cuda
