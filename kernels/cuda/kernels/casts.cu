#include <type_traits>

#include "kernels/cuda/kernels/casts.h"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/number_types.h"

namespace sluice::kernels::cuda {
namespace {

constexpr int kNotSupported = 801;  // cudaErrorNotSupported

// Eight neighbours as floats, moved 16 bytes at a time.
template <typename Type>
SLUICE_HOST_DEVICE inline void LoadEight(const typename Type::Stored* from,
                                         float (&to)[8]) {
  constexpr uint32_t kSize = Pack<Type>::kSize;
  for (uint32_t j = 0; j < 8; j += kSize) {
    const auto pack = *reinterpret_cast<const Pack<Type>*>(from + j);
    for (uint32_t k = 0; k < kSize; ++k) to[j + k] = Type::Widen(pack.v[k]);
  }
}
template <typename Type>
SLUICE_HOST_DEVICE inline void StoreEight(const float (&from)[8],
                                          typename Type::Stored* to) {
  constexpr uint32_t kSize = Pack<Type>::kSize;
  for (uint32_t j = 0; j < 8; j += kSize) {
    Pack<Type> pack;
    for (uint32_t k = 0; k < kSize; ++k) pack.v[k] = Type::Narrow(from[j + k]);
    *reinterpret_cast<Pack<Type>*>(to + j) = pack;
  }
}

// Thread t has the numbers 8 t to 8 t + 7.
template <typename From, typename To>
struct CastEight {
  uint32_t size;
  const typename From::Stored* x;
  typename To::Stored* y;
  bool vector;  // Both are aligned.

  SLUICE_HOST_DEVICE void operator()(uint32_t t) const {
    const uint32_t begin = 8 * t;
    if (vector && size - begin >= 8) {
      float eight[8];
      LoadEight<From>(x + begin, eight);
      StoreEight<To>(eight, y + begin);
      return;
    }
    for (uint32_t i = begin; i < size && i < begin + 8; ++i) {
      y[i] = To::Narrow(From::Widen(x[i]));
    }
  }
};

// Number i of y, rows of another length, of which y may have more.
template <typename From, typename To>
struct CopyRows {
  uint32_t rows, length;  // Of x.
  FastDivide by_length;   // Of y.
  const typename From::Stored* x;
  typename To::Stored* y;

  SLUICE_HOST_DEVICE void operator()(uint32_t i) const {
    const uint32_t row = by_length(i), c = by_length.Rest(i, row);
    const bool inside = row < rows && c < length;
    y[i] = To::Narrow(inside ? From::Widen(x[row * length + c]) : 0);
  }
};

// What has channels last has 16 bits. Images are cut into tiles of 64 channels,
// eight packs, which are 128 bytes of a pixel, and of 32 pixels, which are up
// to 128 bytes of a channel: a block has a thread for every pack. Of images
// with fewer pixels a tile has as many.
constexpr uint32_t kTileChannels = 64;
constexpr uint32_t kTilePixels = 32;
static_assert(kTileChannels / 8 * kTilePixels == kBlock);

// Two more in a row, one word of shared memory, so that neither a warp's
// channel nor its pixels fall into the same bank.
using TileRow = uint16_t[kTileChannels + 2];

struct Tiles {
  Tiles(const Images& first, const Images& last, const void* array)
      : samples(static_cast<uint32_t>(first.samples)),
        channels(static_cast<uint32_t>(first.channels)),
        pixels(static_cast<uint32_t>(first.pixels)),
        all_channels(static_cast<uint32_t>(last.channels)),
        by_width(std::min(pixels, kTilePixels)),
        across(Ceiling(pixels, by_width.divisor())),
        down(Ceiling(all_channels, kTileChannels)),
        vector(all_channels % 8 == 0 && Aligned(array)) {}

  // Of what has channels first, and the channels of what has them last.
  uint32_t samples, channels, pixels, all_channels;
  FastDivide by_width;    // Pixels of a tile.
  uint32_t across, down;  // Tiles of an image.
  bool vector;            // Packs of what has channels last are aligned.
};

// A block's tile.
struct Tile {
  __device__ explicit Tile(const Tiles& t)
      : sample(blockIdx.x / t.across / t.down),
        channel(blockIdx.x / t.across % t.down * kTileChannels),
        pixel(blockIdx.x % t.across * t.by_width.divisor()) {
    width = t.pixels - pixel;
    if (width > t.by_width.divisor()) width = t.by_width.divisor();
    height = t.all_channels - channel;
    if (height > kTileChannels) height = kTileChannels;
  }

  uint32_t sample, channel, pixel;  // Where it begins.
  uint32_t width, height;           // Its pixels and channels.

  // Calls f(channel, pixel, index) for the thread's numbers of a channel,
  // within the tile and in the array with channels first; the latter is
  // meaningless beyond its channels.
  template <typename F>
  __device__ void ForPixels(const Tiles& t, const F& f) const {
    for (uint32_t i = threadIdx.x; i < height * t.by_width.divisor();
         i += kBlock) {
      const uint32_t c = t.by_width(i), p = t.by_width.Rest(i, c);
      if (p >= width) continue;
      f(c, p, (sample * t.channels + channel + c) * t.pixels + pixel + p);
    }
  }
  // The same for the thread's pack of a pixel, up to eight numbers, with their
  // count and the index in the array with channels last.
  template <typename F>
  __device__ void ForPack(const Tiles& t, const F& f) const {
    const uint32_t c = threadIdx.x % 8 * 8, p = threadIdx.x / 8;
    if (p >= width || c >= height) return;
    const uint32_t count = height - c < 8 ? height - c : 8;
    f(c, p, count,
      (sample * t.pixels + pixel + p) * t.all_channels + channel + c);
  }
};

template <typename From, typename Half>
__global__ void __launch_bounds__(kBlock)
    ToChannelsLastKernel(Tiles t, const typename From::Stored* x, uint16_t* y) {
  __shared__ TileRow rows[kTilePixels];
  const Tile tile(t);
  tile.ForPixels(t, [&](uint32_t c, uint32_t p, uint32_t index) {
    const bool inside =
        tile.sample < t.samples && tile.channel + c < t.channels;
    rows[p][c] = Half::Narrow(inside ? From::Widen(x[index]) : 0);
  });
  __syncthreads();
  tile.ForPack(t, [&](uint32_t c, uint32_t p, uint32_t count, uint32_t index) {
    if (!t.vector) {
      for (uint32_t j = 0; j < count; ++j) y[index + j] = rows[p][c + j];
      return;
    }
    Pack<Half> pack;
    for (uint32_t j = 0; j < 8; ++j) pack.v[j] = rows[p][c + j];
    *reinterpret_cast<Pack<Half>*>(y + index) = pack;
  });
}

template <typename Half, typename To>
__global__ void __launch_bounds__(kBlock)
    ToChannelsFirstKernel(Tiles t, const uint16_t* x, typename To::Stored* y) {
  __shared__ TileRow rows[kTilePixels];
  const Tile tile(t);
  tile.ForPack(t, [&](uint32_t c, uint32_t p, uint32_t count, uint32_t index) {
    if (!t.vector) {
      for (uint32_t j = 0; j < count; ++j) rows[p][c + j] = x[index + j];
      return;
    }
    const auto pack = *reinterpret_cast<const Pack<Half>*>(x + index);
    for (uint32_t j = 0; j < 8; ++j) rows[p][c + j] = pack.v[j];
  });
  __syncthreads();
  tile.ForPixels(t, [&](uint32_t c, uint32_t p, uint32_t index) {
    if (tile.channel + c < t.channels) {
      y[index] = To::Narrow(Half::Widen(rows[p][c]));
    }
  });
}

// Whether numbers follow each other in the same order, but for how many there
// are.
bool SameOrder(const Images& a, const Images& b) {
  return a.channels_last == b.channels_last || a.pixels == 1 ||
         (a.channels == 1 && b.channels == 1);
}

template <typename From, typename To>
int ConvertRows(Stream stream, const Images& from, const void* x,
                const Images& to, void* y) {
  const auto* numbers = static_cast<const typename From::Stored*>(x);
  auto* out = static_cast<typename To::Stored*>(y);
  const auto size = static_cast<uint32_t>(to.size());
  if (from.samples == to.samples && from.channels == to.channels) {
    return ForEach(stream, Ceiling(size, 8),
                   CastEight<From, To>{size, numbers, out,
                                       Aligned(numbers) && Aligned(out)});
  }
  if (!to.channels_last && to.pixels > 1) return kNotSupported;
  return ForEach(
      stream, size,
      CopyRows<From, To>{static_cast<uint32_t>(from.samples * from.pixels),
                         static_cast<uint32_t>(from.channels),
                         FastDivide(static_cast<uint32_t>(to.channels)),
                         numbers, out});
}

template <typename From, typename To>
int ConvertTypes(Stream stream, const Images& from, const void* x,
                 const Images& to, void* y) {
  if (SameOrder(from, to)) {
    return ConvertRows<From, To>(stream, from, x, to, y);
  }
  if (to.channels_last) {
    if constexpr (!std::is_same_v<To, Fp32>) {
      const Tiles t(from, to, y);
      const auto samples = static_cast<uint32_t>(to.samples);
      return Launch(ToChannelsLastKernel<From, To>,
                    {samples * t.across * t.down}, stream, t,
                    static_cast<const typename From::Stored*>(x),
                    static_cast<uint16_t*>(y));
    }
  } else if constexpr (!std::is_same_v<From, Fp32>) {
    const Tiles t(to, from, x);
    return Launch(ToChannelsFirstKernel<From, To>,
                  {t.samples * t.across * t.down}, stream, t,
                  static_cast<const uint16_t*>(x),
                  static_cast<typename To::Stored*>(y));
  }
  return kNotSupported;
}

}  // namespace

bool SameLayout(const Images& a, const Images& b) {
  const bool same_type = Is16Bit(a.precision) || Is16Bit(b.precision)
                             ? a.precision == b.precision
                             : true;
  return same_type && a.samples == b.samples && a.channels == b.channels &&
         SameOrder(a, b);
}

int Convert(Stream stream, const Images& from, const void* x, const Images& to,
            void* y) {
  if (to.size() == 0) return 0;
  return WithType(from.precision, [&](auto a) {
    return WithType(to.precision, [&](auto b) {
      using From = decltype(a);
      using To = decltype(b);
      constexpr bool kOneIsFp32 =
          std::is_same_v<From, Fp32> || std::is_same_v<To, Fp32>;
      if constexpr (kOneIsFp32 || std::is_same_v<From, To>) {
        return ConvertTypes<From, To>(stream, from, x, to, y);
      } else {
        return kNotSupported;
      }
    });
  });
}

}  // namespace sluice::kernels::cuda
