#include <type_traits>

#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/windows.h"

namespace sluice::kernels::cuda {
namespace {

uint32_t Numbers(int64_t samples, int64_t size) {
  return static_cast<uint32_t>(samples * size);
}

Windows WindowsOf(Precision precision, const PoolShape& shape) {
  return Windows(shape, Is16Bit(precision));
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

// The mean of channel i of images with channels last.
template <typename Type>
struct GlobalAverageLast {
  FastDivide by_channels;
  uint32_t pixels;
  const typename Type::Stored* x;
  typename Type::Stored* y;

  SLUICE_HOST_DEVICE void operator()(uint32_t i) const {
    const uint32_t channels = by_channels.divisor(), n = by_channels(i);
    const uint32_t first = n * pixels * channels + by_channels.Rest(i, n);
    double sum = 0;
    for (uint32_t p = 0; p < pixels; ++p) {
      sum += Type::Widen(x[first + p * channels]);
    }
    y[i] = Type::Narrow(static_cast<float>(sum / pixels));
  }
};

// Element i of dx (planes, pixels, inner), with `inner` as in Windows: the
// pixels of a plane have dy in equal parts.
template <typename Type>
struct GlobalAverageBackward {
  FastDivide by_inner;
  FastDivide by_pixels;
  const typename Type::Stored* dy;

  SLUICE_HOST_DEVICE float operator()(uint32_t i, float, float) const {
    const uint32_t place = by_inner(i), inner = by_inner.Rest(i, place);
    const uint32_t plane = by_pixels(place);
    return Type::Widen(dy[plane * by_inner.divisor() + inner]) /
           static_cast<float>(by_pixels.divisor());
  }
};

}  // namespace

int MaxPoolForward(Stream stream, Precision precision, const PoolShape& shape,
                   int64_t samples, const void* x, void* y) {
  return WithType(precision, [&](auto type) {
    using Type = decltype(type);
    using Stored = typename Type::Stored;
    return ForEach(stream, Numbers(samples, shape.output_size()),
                   MaxForward<Type>{WindowsOf(precision, shape),
                                    static_cast<const Stored*>(x),
                                    static_cast<Stored*>(y)});
  });
}

int MaxPoolBackward(Stream stream, Precision precision, const PoolShape& shape,
                    int64_t samples, const void* x, const void* dy, void* dx) {
  return WithType(precision, [&](auto type) {
    using Type = decltype(type);
    using Stored = typename Type::Stored;
    return ForEach(stream, Numbers(samples, shape.input_size()),
                   MaxBackward<Type>{WindowsOf(precision, shape),
                                     static_cast<const Stored*>(x),
                                     static_cast<const Stored*>(dy),
                                     static_cast<Stored*>(dx)});
  });
}

int AveragePoolForward(Stream stream, Precision precision,
                       const PoolShape& shape, int64_t samples, const void* x,
                       void* y) {
  return WithType(precision, [&](auto type) {
    using Type = decltype(type);
    using Stored = typename Type::Stored;
    return ForEach(stream, Numbers(samples, shape.output_size()),
                   AverageForward<Type>{WindowsOf(precision, shape),
                                        static_cast<const Stored*>(x),
                                        static_cast<Stored*>(y)});
  });
}

int AveragePoolBackward(Stream stream, Precision precision,
                        const PoolShape& shape, int64_t samples, const void* dy,
                        void* dx) {
  return WithType(precision, [&](auto type) {
    using Type = decltype(type);
    using Stored = typename Type::Stored;
    return ForEach(stream, Numbers(samples, shape.input_size()),
                   AverageBackward<Type>{WindowsOf(precision, shape),
                                         static_cast<const Stored*>(dy),
                                         static_cast<Stored*>(dx)});
  });
}

int GlobalAveragePoolForward(Stream stream, Precision precision,
                             int64_t samples, int64_t channels, int64_t pixels,
                             const void* x, void* y) {
  const uint32_t planes = Numbers(samples, channels);
  const auto size = static_cast<uint32_t>(pixels);
  if (planes == 0) return 0;
  return WithType(precision, [&](auto type) {
    using Type = decltype(type);
    using Stored = typename Type::Stored;
    const auto* from = static_cast<const Stored*>(x);
    auto* to = static_cast<Stored*>(y);
    if constexpr (std::is_same_v<Type, Fp32>) {
      return Launch(GlobalAverageKernel, {Ceiling(planes, kWarpsOfBlock)},
                    stream, planes, size, from, to);
    } else {
      const FastDivide by_channels(static_cast<uint32_t>(channels));
      return ForEach(stream, planes,
                     GlobalAverageLast<Type>{by_channels, size, from, to});
    }
  });
}

int GlobalAveragePoolBackward(Stream stream, Precision precision,
                              int64_t samples, int64_t channels, int64_t pixels,
                              const void* dy, void* dx) {
  const FastDivide by_inner(Is16Bit(precision) ? static_cast<uint32_t>(channels)
                                               : 1);
  return WithType(precision, [&](auto type) {
    using Type = decltype(type);
    const GlobalAverageBackward<Type> f = {
        by_inner, FastDivide(static_cast<uint32_t>(pixels)),
        static_cast<const typename Type::Stored*>(dy)};
    return MapAs<Type>(stream, samples * channels * pixels, f, dx, dx, dx);
  });
}

}  // namespace sluice::kernels::cuda
