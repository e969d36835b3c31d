// How the sums over each channel are cut, for 32 images of 56x56 with 64
// channels. A channel has 100,352 numbers:
//
//   FP32      channels first, so 3136 pixels lie side by side. 24 parts of each
//             channel, 64 x 24 blocks; then a thread for each channel adds 24
//   16 bits   channels last. A block has 8 packs of 8 channels side by side,
//             all 64, and 32 rows of threads; 196 parts of 512 pixels; then a
//             warp for each channel adds 196
//
// The parts follow from the sizes, never from the GPU, and a part's sum goes
// over its threads in a fixed order: the same images give the same bits on any
// GPU.
#include "kernels/cuda/kernels/channel_maps.cuh"
#include "kernels/cuda/kernels/channel_sums.cuh"
#include "kernels/cuda/kernels/channels.h"

namespace sluice::kernels::cuda {

int64_t ChannelSumParts(Precision precision, int64_t samples, int64_t channels,
                        int64_t pixels) {
  const ChannelGeometry g(precision, samples, channels, pixels);
  return int64_t{g.channels} * g.splits.parts;
}

int BiasGradient(Stream stream, Precision precision, int64_t samples,
                 int64_t channels, int64_t pixels, const void* dy, Pair* parts,
                 float* db) {
  const ChannelGeometry g(precision, samples, channels, pixels);
  const int error = Sums(stream, precision, g, FirstAsItIs{}, dy, dy, parts);
  if (error != 0) return error;
  return Finish(stream, g, parts, FinishSum{db});
}

int BatchNormStatistics(Stream stream, Precision precision,
                        const BatchNormShape& shape, int64_t samples,
                        const void* x, Pair* parts, float* mean,
                        float* variance) {
  const ChannelGeometry g(precision, samples, shape.channels, shape.pixels);
  return WithType(precision, [&](auto type) {
    using Type = decltype(type);
    const PivotOf<Type> pivot = {static_cast<const typename Type::Stored*>(x),
                                 g.by_pixels.divisor()};
    const int error =
        SumsOf<Type>(stream, g, DistanceSums<Type>{pivot}, x, x, parts);
    if (error != 0) return error;
    const auto count = static_cast<double>(g.count);
    return Finish(stream, g, parts,
                  FinishMoments<Type>{pivot, count, mean, variance});
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
  return MapChannelsAndRelu(stream, precision, samples, shape.channels,
                            shape.pixels, ApplyFactor{mean, factor, beta},
                            shape.relu, x, x, y);
}

int BatchNormBackward(Stream stream, Precision precision,
                      const BatchNormShape& shape, int64_t samples,
                      const void* x, const float* gamma, const float* mean,
                      const float* variance, const void* dy, Pair* parts,
                      float* table, void* dx, float* dgamma, float* dbeta) {
  const ChannelGeometry g(precision, samples, shape.channels, shape.pixels);
  int error = Sums(stream, precision, g, GradientSums{mean}, x, dy, parts);
  if (error != 0) return error;
  const FinishGradients finish = {
      gamma,      variance, shape.epsilon, static_cast<double>(g.count),
      g.channels, dgamma,   dbeta,         table};
  error = Finish(stream, g, parts, finish);
  if (error != 0 || dx == nullptr) return error;
  return MapChannels(stream, precision, samples, shape.channels, shape.pixels,
                     ApplyGradients{g.channels, mean, table}, x, dy, dx);
}

}  // namespace sluice::kernels::cuda
