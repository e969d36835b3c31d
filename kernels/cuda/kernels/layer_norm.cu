// Layer norm and group norm: a warp has a group of numbers that are normalised
// together, and Place says where they lie. Sums are in double, over the warp's
// quads in a fixed order, so a group's bits depend on its own numbers only.
//
// One image of 4 channels in 2 groups and 3 pixels; of group 1, channels 2 and
// 3:
//
//   channels first    6 7 8 (channel 2), 9 10 11 (channel 3)
//   channels last     2 3 (pixel 0), 6 7 (pixel 1), 10 11 (pixel 2)
//
// The gradients of gamma and beta are sums over samples for each channel, as
// batch norm's (channel_sums.cuh). Backward leaves each group's statistics for
// them.
#include "kernels/cuda/kernels/channel_sums.cuh"
#include "kernels/cuda/kernels/channels.h"
#include "kernels/cuda/kernels/quads.cuh"

namespace sluice::kernels::cuda {
namespace {

// What x of a group becomes before gamma: (x - mean) inverse. Layer norm's
// groups are rows.
struct Statistics {
  float mean;
  float inverse;  // Of the deviation.
};

// Where number k of a group lies behind the group's first, and which channel it
// belongs to, counted from the group's first. Four at a multiple of four lie
// side by side where `vector` says so.

struct InRow {  // Of one group and one pixel.
  // Whether the channels of four are side by side as well.
  static constexpr bool kChannelsToo = true;
  uint32_t size;

  SLUICE_HOST_DEVICE uint32_t First(uint32_t row) const { return row * size; }
  SLUICE_HOST_DEVICE uint32_t FirstChannel(uint32_t) const { return 0; }
  SLUICE_HOST_DEVICE uint32_t At(uint32_t k) const { return k; }
  SLUICE_HOST_DEVICE uint32_t Channel(uint32_t k) const { return k; }
  template <typename Type>
  bool Aligned(const void* p) const {
    return RowsAligned<Type>(p, size);
  }
};

// A group's channels lie one behind the other, each with its pixels; or, with
// channels last, a pixel's channels of all groups do.
struct InImage {
  static constexpr bool kChannelsToo = false;

  InImage(const LayerNormShape& s, bool last)
      : size(static_cast<uint32_t>(s.group_size())),
        channels(static_cast<uint32_t>(s.group_features())),
        channels_last(last),
        by_groups(static_cast<uint32_t>(s.groups)),
        by_run(static_cast<uint32_t>(last ? s.group_features() : s.pixels)) {}

  uint32_t size;      // Numbers of a group.
  uint32_t channels;  // Of a group.
  bool channels_last;
  FastDivide by_groups;
  FastDivide by_run;  // Of numbers that share the pixel, or else the channel.

  SLUICE_HOST_DEVICE uint32_t First(uint32_t group) const {
    const uint32_t n = by_groups(group);
    return channels_last ? n * by_groups.divisor() * size + FirstChannel(group)
                         : group * size;
  }
  SLUICE_HOST_DEVICE uint32_t FirstChannel(uint32_t group) const {
    return by_groups.Rest(group, by_groups(group)) * channels;
  }
  SLUICE_HOST_DEVICE uint32_t At(uint32_t k) const {
    const uint32_t pixel = by_run(k);
    return channels_last
               ? pixel * by_groups.divisor() * channels + by_run.Rest(k, pixel)
               : k;
  }
  SLUICE_HOST_DEVICE uint32_t Channel(uint32_t k) const {
    const uint32_t run = by_run(k);
    return channels_last ? by_run.Rest(k, run) : run;
  }
  template <typename Type>
  bool Aligned(const void* p) const {
    return RowsAligned<Type>(p, channels_last ? channels : size);
  }
};

// The `count` numbers of an array from `from` on, which are a group's from
// `begin` on.
template <typename Type, typename Place>
__device__ inline Quad LoadOf(const Place& place, uint32_t begin,
                              uint32_t count, bool vector,
                              const typename Type::Stored* from) {
  if (vector) return Load<Type>(from + place.At(begin), count, true);
  Quad quad = {};
  for (uint32_t j = 0; j < 4; ++j) {
    if (j < count) quad.v[j] = Type::Widen(from[place.At(begin + j)]);
  }
  return quad;
}

template <typename Type, typename Place>
__device__ inline void StoreOf(const Place& place, const Quad& quad,
                               uint32_t begin, uint32_t count, bool vector,
                               typename Type::Stored* to) {
  if (vector) {
    Store<Type>(quad, count, true, to + place.At(begin));
    return;
  }
  for (uint32_t j = 0; j < 4; ++j) {
    if (j < count) to[place.At(begin + j)] = Type::Narrow(quad.v[j]);
  }
}

// The same of an array of one float for each of the group's channels.
template <typename Place>
__device__ inline Quad LoadOfChannels(const Place& place, uint32_t begin,
                                      uint32_t count, bool vector,
                                      const float* from) {
  if (vector && Place::kChannelsToo) {
    return Load<Fp32>(from + begin, count, true);
  }
  Quad quad = {};
  for (uint32_t j = 0; j < 4; ++j) {
    if (j < count) quad.v[j] = from[place.Channel(begin + j)];
  }
  return quad;
}

// The sum over a group, in all the warp's threads, of what add(begin, count,
// &sum) adds for each of a thread's quads.
template <typename F>
__device__ inline Pair GroupSum(uint32_t size, const F& add) {
  Pair sum = {0, 0};
  ForQuads(size,
           [&](uint32_t begin, uint32_t count) { add(begin, count, &sum); });
  return WarpSumInAll(sum);
}

template <typename Type, typename Place>
__device__ inline Statistics StatisticsOf(const Place& place, bool vector,
                                          double epsilon,
                                          const typename Type::Stored* x) {
  const Pair total =
      GroupSum(place.size, [&](uint32_t begin, uint32_t count, Pair* sum) {
        const Quad v = LoadOf<Type>(place, begin, count, vector, x);
        for (uint32_t j = 0; j < count; ++j) *sum = *sum + Pair{v.v[j], 0};
      });
  const auto mean = static_cast<float>(total.first / place.size);
  const Pair squares =
      GroupSum(place.size, [&](uint32_t begin, uint32_t count, Pair* sum) {
        const Quad v = LoadOf<Type>(place, begin, count, vector, x);
        for (uint32_t j = 0; j < count; ++j) {
          const double distance = static_cast<double>(v.v[j]) - mean;
          *sum = *sum + Pair{distance * distance, 0};
        }
      });
  return {mean,
          static_cast<float>(1 / sqrt(squares.first / place.size + epsilon))};
}

// A warp for each group: these have some hundred numbers to a few thousand, so
// that a thread has four at a time of them.
template <typename Type, typename Place>
__global__ void __launch_bounds__(kBlock)
    LayerNormForwardKernel(uint32_t groups, Place place, double epsilon,
                           bool vector, const typename Type::Stored* x,
                           const float* gamma, const float* beta,
                           typename Type::Stored* y) {
  const uint32_t group = blockIdx.x * kWarpsOfBlock + threadIdx.x / kWarp;
  if (group >= groups) return;  // The whole warp.
  const uint32_t first = place.First(group);
  const float* const gammas = gamma + place.FirstChannel(group);
  const float* const betas = beta + place.FirstChannel(group);
  const Statistics of = StatisticsOf<Type>(place, vector, epsilon, x + first);
  ForQuads(place.size, [&](uint32_t begin, uint32_t count) {
    const Quad v = LoadOf<Type>(place, begin, count, vector, x + first);
    const Quad factor = LoadOfChannels(place, begin, count, vector, gammas);
    const Quad offset = LoadOfChannels(place, begin, count, vector, betas);
    Quad result = {};
    for (uint32_t j = 0; j < count; ++j) {
      result.v[j] =
          factor.v[j] * ((v.v[j] - of.mean) * of.inverse) + offset.v[j];
    }
    StoreOf<Type>(place, result, begin, count, vector, y + first);
  });
}

template <typename Type, typename Place>
__global__ void __launch_bounds__(kBlock)
    LayerNormBackwardKernel(uint32_t groups, Place place, double epsilon,
                            bool vector, const typename Type::Stored* x,
                            const float* gamma, const typename Type::Stored* dy,
                            Statistics* statistics, typename Type::Stored* dx) {
  const uint32_t group = blockIdx.x * kWarpsOfBlock + threadIdx.x / kWarp;
  if (group >= groups) return;  // The whole warp.
  const uint32_t first = place.First(group);
  const float* const gammas = gamma + place.FirstChannel(group);
  const Statistics of = StatisticsOf<Type>(place, vector, epsilon, x + first);
  if (threadIdx.x % kWarp == 0) statistics[group] = of;
  if (dx == nullptr) return;
  const Pair sums =
      GroupSum(place.size, [&](uint32_t begin, uint32_t count, Pair* sum) {
        const Quad v = LoadOf<Type>(place, begin, count, vector, x + first);
        const Quad d = LoadOf<Type>(place, begin, count, vector, dy + first);
        const Quad factor = LoadOfChannels(place, begin, count, vector, gammas);
        for (uint32_t j = 0; j < count; ++j) {
          const float g = factor.v[j] * d.v[j];
          const float h = (v.v[j] - of.mean) * of.inverse;
          *sum = *sum + Pair{g, static_cast<double>(g) * h};
        }
      });
  const auto mean = static_cast<float>(sums.first / place.size);
  const auto slope = static_cast<float>(sums.second / place.size);
  ForQuads(place.size, [&](uint32_t begin, uint32_t count) {
    const Quad v = LoadOf<Type>(place, begin, count, vector, x + first);
    const Quad d = LoadOf<Type>(place, begin, count, vector, dy + first);
    const Quad factor = LoadOfChannels(place, begin, count, vector, gammas);
    Quad result = {};
    for (uint32_t j = 0; j < count; ++j) {
      const float h = (v.v[j] - of.mean) * of.inverse;
      result.v[j] = of.inverse * ((factor.v[j] * d.v[j] - mean) - h * slope);
    }
    StoreOf<Type>(place, result, begin, count, vector, dx + first);
  });
}

// dy, and dy times what x became before gamma. Samples are rows, or with
// channels last their pixels.
struct ParameterGradientSums {
  FastDivide by_pixels;    // What is a sample of them.
  FastDivide by_channels;  // Of a group.
  uint32_t groups;
  const Statistics* statistics;

  SLUICE_HOST_DEVICE uint32_t At(uint32_t c) const { return by_channels(c); }
  SLUICE_HOST_DEVICE Pair operator()(uint32_t group, uint32_t n, float x,
                                     float dy) const {
    const Statistics of = statistics[by_pixels(n) * groups + group];
    return {dy, static_cast<double>(dy) * ((x - of.mean) * of.inverse)};
  }
};

int64_t GroupsOf(const LayerNormShape& shape, int64_t samples) {
  return samples * shape.rows * shape.groups;
}

// What f(type, place) returns for activations in `precision`.
template <typename F>
int WithPlaces(Precision precision, const LayerNormShape& shape, const F& f) {
  return WithType(precision, [&](auto type) {
    if (shape.groups == 1 && shape.pixels == 1) {
      return f(type, InRow{static_cast<uint32_t>(shape.features)});
    }
    return f(type, InImage(shape, Is16Bit(precision)));
  });
}

}  // namespace

int LayerNormForward(Stream stream, Precision precision,
                     const LayerNormShape& shape, int64_t samples,
                     const void* x, const float* gamma, const float* beta,
                     void* y) {
  if (samples == 0) return 0;
  const auto groups = static_cast<uint32_t>(GroupsOf(shape, samples));
  return WithPlaces(precision, shape, [&](auto type, const auto& place) {
    using Type = decltype(type);
    using Place = std::decay_t<decltype(place)>;
    using Stored = typename Type::Stored;
    const bool vector = place.template Aligned<Type>(x) &&
                        place.template Aligned<Fp32>(gamma) &&
                        place.template Aligned<Fp32>(beta) &&
                        place.template Aligned<Type>(y);
    return Launch(LayerNormForwardKernel<Type, Place>,
                  {Ceiling(groups, kWarpsOfBlock)}, stream, groups, place,
                  shape.epsilon, vector, static_cast<const Stored*>(x), gamma,
                  beta, static_cast<Stored*>(y));
  });
}

int64_t LayerNormScratch(Precision precision, const LayerNormShape& shape,
                         int64_t samples) {
  const int64_t parts = ChannelSumParts(precision, samples * shape.rows,
                                        shape.features, shape.pixels);
  return parts * sizeof(Pair) + GroupsOf(shape, samples) * sizeof(Statistics);
}

int LayerNormBackward(Stream stream, Precision precision,
                      const LayerNormShape& shape, int64_t samples,
                      const void* x, const float* gamma, const void* dy,
                      void* scratch, void* dx, float* dgamma, float* dbeta) {
  const auto groups = static_cast<uint32_t>(GroupsOf(shape, samples));
  const ChannelGeometry g(precision, samples * shape.rows, shape.features,
                          shape.pixels);
  auto* const parts = static_cast<Pair*>(scratch);
  auto* const statistics = reinterpret_cast<Statistics*>(
      parts + int64_t{g.channels} * g.splits.parts);
  int error = WithPlaces(precision, shape, [&](auto type, const auto& place) {
    using Type = decltype(type);
    using Place = std::decay_t<decltype(place)>;
    using Stored = typename Type::Stored;
    // nullptr is aligned.
    const bool vector = place.template Aligned<Type>(x) &&
                        place.template Aligned<Fp32>(gamma) &&
                        place.template Aligned<Type>(dy) &&
                        place.template Aligned<Type>(dx);
    return Launch(LayerNormBackwardKernel<Type, Place>,
                  {Ceiling(groups, kWarpsOfBlock)}, stream, groups, place,
                  shape.epsilon, vector, static_cast<const Stored*>(x), gamma,
                  static_cast<const Stored*>(dy), statistics,
                  static_cast<Stored*>(dx));
  });
  if (error != 0) return error;
  const ParameterGradientSums sums = {
      FastDivide(Is16Bit(precision) ? static_cast<uint32_t>(shape.pixels) : 1),
      FastDivide(static_cast<uint32_t>(shape.group_features())),
      static_cast<uint32_t>(shape.groups), statistics};
  error = Sums(stream, precision, g, sums, x, dy, parts);
  if (error != 0) return error;
  return Finish(stream, g, parts, FinishBothSums{dbeta, dgamma});
}

}  // namespace sluice::kernels::cuda
