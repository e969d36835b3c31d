#include "kernels/cuda/casts.h"
#include "kernels/cuda/half.h"
#include "kernels/cuda/launch.cuh"

namespace sluice::kernels::cuda {
namespace {

// Thread t has the numbers 8 t to 8 t + 7.
template <typename Half>
struct NarrowOctets {
  uint32_t size;
  const float* x;
  uint16_t* y;
  bool vector;  // x is aligned.

  SLUICE_HOST_DEVICE void operator()(uint32_t t) const {
    const uint32_t begin = 8 * t;
    if (!vector || size - begin < 8) {
      for (uint32_t i = begin; i < size && i < begin + 8; ++i) {
        y[i] = Half::Narrow(x[i]);
      }
      return;
    }
    const Quad* from = reinterpret_cast<const Quad*>(x + begin);
    const Quad quads[2] = {from[0], from[1]};
    Octet octet;
    for (uint32_t j = 0; j < 8; ++j) {
      octet.v[j] = Half::Narrow(quads[j / 4].v[j % 4]);
    }
    *reinterpret_cast<Octet*>(y + begin) = octet;
  }
};

template <typename Half>
struct WidenOctets {
  uint32_t size;
  const uint16_t* x;
  float* y;
  bool vector;  // y is aligned.

  SLUICE_HOST_DEVICE void operator()(uint32_t t) const {
    const uint32_t begin = 8 * t;
    if (!vector || size - begin < 8) {
      for (uint32_t i = begin; i < size && i < begin + 8; ++i) {
        y[i] = Half::Widen(x[i]);
      }
      return;
    }
    const Octet octet = *reinterpret_cast<const Octet*>(x + begin);
    Quad quads[2];
    for (uint32_t j = 0; j < 8; ++j) {
      quads[j / 4].v[j % 4] = Half::Widen(octet.v[j]);
    }
    Quad* const to = reinterpret_cast<Quad*>(y + begin);
    to[0] = quads[0];
    to[1] = quads[1];
  }
};

// Images are cut into tiles of 64 channels, eight octets, which are 128 bytes
// of a pixel, and of 32 pixels, which are 128 bytes of a channel: a block has a
// thread for every octet. Of images with fewer pixels a tile has as many.
constexpr uint32_t kTileChannels = 64;
constexpr uint32_t kTilePixels = 32;
static_assert(kTileChannels / 8 * kTilePixels == kBlock);

// Two more in a row, one word of shared memory, so that neither a warp's
// channel nor its pixels fall into the same bank.
using TileRow = uint16_t[kTileChannels + 2];

struct Tiles {
  explicit Tiles(const ImageShape& s)
      : samples(static_cast<uint32_t>(s.samples)),
        channels(static_cast<uint32_t>(s.channels)),
        pixels(static_cast<uint32_t>(s.pixels)),
        all_channels(static_cast<uint32_t>(s.all_channels)),
        by_width(std::min(pixels, kTilePixels)),
        across(Ceiling(pixels, by_width.divisor())),
        down(Ceiling(all_channels, kTileChannels)) {}

  uint32_t samples, channels, pixels, all_channels;
  FastDivide by_width;    // Pixels of a tile.
  uint32_t across, down;  // Tiles of an image.
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

  // Calls f(channel, pixel, index) for the thread's floats, within the tile and
  // in the whole array; the latter is meaningless beyond its channels.
  template <typename F>
  __device__ void ForFloats(const Tiles& t, const F& f) const {
    for (uint32_t i = threadIdx.x; i < height * t.by_width.divisor();
         i += kBlock) {
      const uint32_t c = t.by_width(i), p = t.by_width.Rest(i, c);
      if (p >= width) continue;
      f(c, p, (sample * t.channels + channel + c) * t.pixels + pixel + p);
    }
  }
  // The same for the thread's octet.
  template <typename F>
  __device__ void ForOctet(const Tiles& t, const F& f) const {
    const uint32_t c = threadIdx.x % 8 * 8, p = threadIdx.x / 8;
    if (p >= width || c >= height) return;
    f(c, p, (sample * t.pixels + pixel + p) * t.all_channels + channel + c);
  }
};

template <typename Half>
__global__ void __launch_bounds__(kBlock)
    ToChannelsLastKernel(Tiles t, const float* x, uint16_t* y) {
  __shared__ TileRow rows[kTilePixels];
  const Tile tile(t);
  tile.ForFloats(t, [&](uint32_t c, uint32_t p, uint32_t index) {
    const bool inside =
        tile.sample < t.samples && tile.channel + c < t.channels;
    rows[p][c] = Half::Narrow(inside ? x[index] : 0);
  });
  __syncthreads();
  tile.ForOctet(t, [&](uint32_t c, uint32_t p, uint32_t index) {
    Octet octet;
    for (uint32_t j = 0; j < 8; ++j) octet.v[j] = rows[p][c + j];
    *reinterpret_cast<Octet*>(y + index) = octet;
  });
}

template <typename Half>
__global__ void __launch_bounds__(kBlock)
    FromChannelsLastKernel(Tiles t, const uint16_t* x, float* y) {
  __shared__ TileRow rows[kTilePixels];
  const Tile tile(t);
  tile.ForOctet(t, [&](uint32_t c, uint32_t p, uint32_t index) {
    const Octet octet = *reinterpret_cast<const Octet*>(x + index);
    for (uint32_t j = 0; j < 8; ++j) rows[p][c + j] = octet.v[j];
  });
  __syncthreads();
  tile.ForFloats(t, [&](uint32_t c, uint32_t p, uint32_t index) {
    if (tile.channel + c < t.channels) y[index] = Half::Widen(rows[p][c]);
  });
}

template <typename Half>
int NarrowTo(Stream stream, int64_t size, const float* x, uint16_t* y) {
  const auto floats = static_cast<uint32_t>(size);
  return ForEach(stream, Ceiling(floats, 8),
                 NarrowOctets<Half>{floats, x, y, Aligned(x)});
}

template <typename Half>
int WidenFrom(Stream stream, int64_t size, const uint16_t* x, float* y) {
  const auto floats = static_cast<uint32_t>(size);
  return ForEach(stream, Ceiling(floats, 8),
                 WidenOctets<Half>{floats, x, y, Aligned(y)});
}

// Whether both arrays have the same numbers in the same order.
bool SameOrder(const ImageShape& shape) {
  return shape.pixels == 1 && shape.floats() == shape.halves();
}

}  // namespace

int Narrow(Stream stream, Precision type, int64_t size, const float* x,
           uint16_t* y) {
  return type == Precision::kBf16 ? NarrowTo<Bf16>(stream, size, x, y)
                                  : NarrowTo<Fp16>(stream, size, x, y);
}

int ToChannelsLast(Stream stream, Precision type, const ImageShape& shape,
                   const float* x, uint16_t* y) {
  if (SameOrder(shape)) return Narrow(stream, type, shape.floats(), x, y);
  if (shape.halves() == 0) return 0;
  const Tiles t(shape);
  const auto samples = static_cast<uint32_t>(shape.all_samples);
  return Launch(type == Precision::kBf16 ? ToChannelsLastKernel<Bf16>
                                         : ToChannelsLastKernel<Fp16>,
                {samples * t.across * t.down}, stream, t, x, y);
}

int FromChannelsLast(Stream stream, Precision type, const ImageShape& shape,
                     const uint16_t* x, float* y) {
  if (SameOrder(shape)) {
    return type == Precision::kBf16
               ? WidenFrom<Bf16>(stream, shape.floats(), x, y)
               : WidenFrom<Fp16>(stream, shape.floats(), x, y);
  }
  if (shape.floats() == 0) return 0;
  const Tiles t(shape);
  return Launch(type == Precision::kBf16 ? FromChannelsLastKernel<Bf16>
                                         : FromChannelsLastKernel<Fp16>,
                {t.samples * t.across * t.down}, stream, t, x, y);
}

}  // namespace sluice::kernels::cuda
