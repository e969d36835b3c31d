// What dropout leaves out is a function of a number's place in the mini-batch
// with channels first, whatever the order in memory, so that every device and
// precision leaves out the same. Four numbers share a Philox block. Where
// memory has that order a thread takes a pack, and so whole blocks; with
// channels last neighbours belong to different blocks, and each number computes
// its own.
//
// The draw lies in device memory rather than in a kernel's arguments: a
// recording has its arguments for ever, but must drop others with each
// mini-batch.
#include "kernels/cuda/channel_maps.cuh"
#include "kernels/cuda/channels.h"
#include "kernels/cuda/dropout.h"
#include "kernels/cuda/launch.cuh"

namespace sluice::kernels::cuda {

int Sum(Stream stream, Precision precision, int64_t size, bool relu,
        const void* a, const void* b, void* y) {
  return relu ? Map(stream, precision, size, ThenRelu<Add>{}, a, b, y)
              : Map(stream, precision, size, Add{}, a, b, y);
}

int StoreDraw(Stream stream, const DropoutDraw& draw, DropoutDraw* to) {
  return ForEach(stream, 1, CopyDraw{draw, to});
}

int Dropout(Stream stream, Precision precision, int64_t samples,
            int64_t channels, int64_t pixels, double rate,
            const DropoutDraw* draw, const void* x, void* y) {
  const int64_t size = samples * channels * pixels;
  if (size == 0) return 0;
  if (Is16Bit(precision) && channels > 1 && pixels > 1) {
    const DropoutChannelsLast f = {FastDivide(static_cast<uint32_t>(channels)),
                                   FastDivide(static_cast<uint32_t>(pixels)),
                                   DropoutRate(rate), draw};
    return Map(stream, precision, size, f, x, y);
  }
  return WithType(precision, [&](auto type) {
    using Type = decltype(type);
    using Stored = typename Type::Stored;
    const DropoutPacks<Type> packs = {static_cast<uint32_t>(size),
                                      DropoutRate(rate),
                                      draw,
                                      static_cast<const Stored*>(x),
                                      static_cast<Stored*>(y),
                                      Aligned(x) && Aligned(y)};
    return ForEach(stream, packs.threads(), packs);
  });
}

int AddBias(Stream stream, Precision precision, int64_t samples,
            int64_t channels, int64_t pixels, const float* b, bool relu,
            void* y) {
  return MapChannelsAndRelu(stream, precision, samples, channels, pixels,
                            AddChannelBias{b}, relu, y, y, y);
}

}  // namespace sluice::kernels::cuda
