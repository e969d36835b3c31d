#ifndef SLUICE_KERNELS_CUDA_KERNELS_CHANNEL_MAPS_CUH_
#define SLUICE_KERNELS_CUDA_KERNELS_CHANNEL_MAPS_CUH_

#include "kernels/cuda/kernels/channel_geometry.h"
#include "kernels/cuda/kernels/launch.cuh"

// Elementwise work on images that depends on the channel: F has At(c), what it
// wants to know of channel c, and a float operator()(that, a, b).
namespace sluice::kernels::cuda {

// The same for number i.
template <typename F>
struct OfItsChannel {
  ChannelOf channel;
  F f;

  SLUICE_HOST_DEVICE float operator()(uint32_t i, float a, float b) const {
    return f(f.At(channel(i)), a, b);
  }
};

// Rows of channels in packs, as ChannelGeometry cuts them: a thread looks up
// what belongs to its pack's channels once for all its rows. Neighbouring
// threads have other channels, so that looking it up for each number would cost
// more than the numbers.
template <typename Type, typename F>
__global__ void __launch_bounds__(kBlock)
    MapColumnsKernel(ChannelGeometry g, F f, const typename Type::Stored* a,
                     const typename Type::Stored* b,
                     typename Type::Stored* out) {
  constexpr uint32_t kSize = Pack<Type>::kSize;
  const uint32_t row = g.by_width(threadIdx.x);
  const uint32_t column = g.by_width.Rest(threadIdx.x, row);
  const uint32_t first = (blockIdx.x * g.width() + column) * kSize;
  if (row >= g.rows() || first >= g.channels) return;
  decltype(f.At(0)) of[kSize];
  for (uint32_t j = 0; j < kSize; ++j) of[j] = f.At(first + j);
  const uint32_t begin = blockIdx.y * g.splits.size;
  const uint32_t end =
      g.count - begin < g.splits.size ? g.count : begin + g.splits.size;
  for (uint32_t n = begin + row; n < end; n += g.rows()) {
    const uint32_t i = n * g.channels + first;
    const auto u = *reinterpret_cast<const Pack<Type>*>(a + i);
    const auto v = *reinterpret_cast<const Pack<Type>*>(b + i);
    Pack<Type> result;
    for (uint32_t j = 0; j < kSize; ++j) {
      result.v[j] =
          Type::Narrow(f(of[j], Type::Widen(u.v[j]), Type::Widen(v.v[j])));
    }
    *reinterpret_cast<Pack<Type>*>(out + i) = result;
  }
}

// out = f of each number of a and b; `out` may be either.
template <typename F>
int MapChannels(Stream stream, Precision precision, int64_t samples,
                int64_t channels, int64_t pixels, const F& f, const void* a,
                const void* b, void* out) {
  const ChannelGeometry g(precision, samples, channels, pixels);
  const bool vector = Aligned(a) && Aligned(b) && Aligned(out);
  if (g.by_pixels.divisor() > 1 || g.pack == 1 || !vector) {
    const OfItsChannel<F> each = {ChannelOf(precision, channels, pixels), f};
    return Map(stream, precision, samples * channels * pixels, each, a, b, out);
  }
  if (g.count == 0) return 0;
  return WithType(precision, [&](auto type) {
    using Type = decltype(type);
    using Stored = typename Type::Stored;
    return Launch(MapColumnsKernel<Type, F>, {g.across, g.splits.parts}, stream,
                  g, f, static_cast<const Stored*>(a),
                  static_cast<const Stored*>(b), static_cast<Stored*>(out));
  });
}

// The same, and with `relu` that of f.
template <typename F>
int MapChannelsAndRelu(Stream stream, Precision precision, int64_t samples,
                       int64_t channels, int64_t pixels, const F& f, bool relu,
                       const void* a, const void* b, void* out) {
  return relu ? MapChannels(stream, precision, samples, channels, pixels,
                            ThenRelu<F>{f}, a, b, out)
              : MapChannels(stream, precision, samples, channels, pixels, f, a,
                            b, out);
}

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_KERNELS_CHANNEL_MAPS_CUH_
