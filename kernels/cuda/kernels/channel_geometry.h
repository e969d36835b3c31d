#ifndef SLUICE_KERNELS_CUDA_KERNELS_CHANNEL_GEOMETRY_H_
#define SLUICE_KERNELS_CUDA_KERNELS_CHANNEL_GEOMETRY_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/kernels/elementwise.h"
#include "kernels/cuda/kernels/fast_divide.h"
#include "kernels/cuda/kernels/launch_geometry.h"
#include "kernels/cuda/precision.h"

namespace sluice::kernels::cuda {

// How the channels of images, in the order of `precision`, are summed in parts,
// each by a block:
//
// Planes   where a channel has several pixels side by side, a part is of one
//          channel.
// Columns  else images are rows of channels, and a part is some rows of `width`
//          packs of channels. A block has as many threads side by side, and the
//          others below them. A pack is 16 bytes where channels come in such,
//          else one number.
struct ChannelGeometry {
  ChannelGeometry(Precision precision, int64_t samples, int64_t c,
                  int64_t pixels)
      : channels(static_cast<uint32_t>(c)),
        count(static_cast<uint32_t>(samples * pixels)),
        by_pixels(static_cast<uint32_t>(PixelsOfPlane(precision, pixels))),
        pack(PackOf(precision, channels)),
        by_width(std::min(channels / pack, kWarp)),
        across(by_pixels.divisor() == 1
                   ? Ceiling(channels, pack * by_width.divisor())
                   : channels),
        splits(by_pixels.divisor() == 1
                   ? Splits::Of(count, kLeastOfThread * rows(),
                                std::max(kManyBlocks / across, 1u))
                   : Splits::Of(count, kLeastOfThread * kBlock, 64)) {}

  // Of a block's threads.
  SLUICE_HOST_DEVICE uint32_t width() const { return by_width.divisor(); }
  SLUICE_HOST_DEVICE uint32_t rows() const { return kBlock / width(); }

  uint32_t channels;
  uint32_t count;        // Numbers of a channel.
  FastDivide by_pixels;  // Those side by side.
  uint32_t pack;         // Numbers.
  FastDivide by_width;
  uint32_t across;  // Blocks for each part.
  Splits splits;

 private:
  static uint32_t PackOf(Precision precision, uint32_t channels) {
    const uint32_t size = 16 / static_cast<uint32_t>(BytesOf(precision));
    return channels % size == 0 ? size : 1;
  }
};

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_KERNELS_CHANNEL_GEOMETRY_H_
