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
#include "kernels/cuda/kernels/channel_maps.cuh"
#include "kernels/cuda/kernels/channels.h"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/philox.h"

namespace sluice::kernels::cuda {
namespace {

// A draw travels to device memory as a kernel's argument, so that nobody waits.
struct CopyDraw {
  DropoutDraw draw;
  DropoutDraw* to;

  SLUICE_HOST_DEVICE void operator()(uint32_t) const { *to = draw; }
};

// What becomes of a number, of which dropout leaves out a share.
struct DropoutRate {
  explicit DropoutRate(double rate)
      : threshold(static_cast<uint32_t>(rate * 0x1p32)),
        scale(static_cast<float>(1 / (1 - rate))) {}

  SLUICE_HOST_DEVICE float Of(uint32_t bits, float x) const {
    return bits >= threshold ? scale * x : 0;
  }

  uint32_t threshold;
  float scale;
};

// Thread t computes pack draw->first / kSize + t of the draw's numbers, which
// lie in its order.
template <typename Type>
struct DropoutPacks {
  using Stored = typename Type::Stored;
  static constexpr uint32_t kSize = Pack<Type>::kSize;
  static constexpr uint32_t kBlocks = kSize / 4;

  uint32_t size;
  DropoutRate rate;
  const DropoutDraw* draw;
  const Stored* x;
  Stored* y;
  bool vector;  // Both are aligned.

  // Enough wherever in a pack the draw begins.
  SLUICE_HOST_DEVICE uint32_t threads() const {
    return static_cast<uint32_t>((uint64_t{size} + 2 * (kSize - 1)) / kSize);
  }

  SLUICE_HOST_DEVICE void operator()(uint32_t t) const {
    const uint64_t first = draw->first;
    uint32_t bits[kSize];
    for (uint32_t b = 0; b < kBlocks; ++b) {
      const PhiloxBlock block(draw->key, (first / kSize + t) * kBlocks + b);
      for (uint32_t j = 0; j < 4; ++j) bits[4 * b + j] = block.v[j];
    }
    const auto skipped = static_cast<uint32_t>(first % kSize);
    if (vector && skipped == 0 && size >= kSize * t + kSize) {
      const auto u = *reinterpret_cast<const Pack<Type>*>(x + kSize * t);
      Pack<Type> result;
      for (uint32_t j = 0; j < kSize; ++j) {
        result.v[j] = Type::Narrow(rate.Of(bits[j], Type::Widen(u.v[j])));
      }
      *reinterpret_cast<Pack<Type>*>(y + kSize * t) = result;
      return;
    }
    for (uint32_t j = 0; j < kSize; ++j) {
      const uint32_t at = kSize * t + j;  // From the first pack's start.
      if (at < skipped || at - skipped >= size) continue;
      const uint32_t i = at - skipped;
      y[i] = Type::Narrow(rate.Of(bits[j], Type::Widen(x[i])));
    }
  }
};

// The same for a number i of images with channels last, whose place in the draw
// is that with channels first.
struct DropoutChannelsLast {
  FastDivide by_channels;
  FastDivide by_pixels;
  DropoutRate rate;
  const DropoutDraw* draw;

  SLUICE_HOST_DEVICE float operator()(uint32_t i, float x, float) const {
    const uint32_t row = by_channels(i), c = by_channels.Rest(i, row);
    const uint32_t n = by_pixels(row), p = by_pixels.Rest(row, n);
    const uint32_t plane = n * by_channels.divisor() + c;
    const uint64_t number = draw->first + plane * by_pixels.divisor() + p;
    const PhiloxBlock block(draw->key, number / 4);
    return rate.Of(block.v[number % 4], x);
  }
};

}  // namespace

// `seen` is what the derivative is taken from: x for gelu, y for the others,
// which is why only these may overwrite x with y.
int ActivationForward(Stream stream, Precision precision, ActivationKind kind,
                      int64_t size, const void* x, void* y) {
  switch (kind) {
    case ActivationKind::kRelu:
      return Map(stream, precision, size, ReluForward{}, x, y);
    case ActivationKind::kTanh:
      return Map(stream, precision, size, TanhForward{}, x, y);
    case ActivationKind::kSigmoid:
      return Map(stream, precision, size, SigmoidForward{}, x, y);
    case ActivationKind::kGelu:
      return Map(stream, precision, size, GeluForward{}, x, y);
  }
  return 0;
}

int ActivationBackward(Stream stream, Precision precision, ActivationKind kind,
                       int64_t size, const void* seen, const void* dy,
                       void* dx) {
  switch (kind) {
    case ActivationKind::kRelu:
      return Map(stream, precision, size, ReluBackward{}, seen, dy, dx);
    case ActivationKind::kTanh:
      return Map(stream, precision, size, TanhBackward{}, seen, dy, dx);
    case ActivationKind::kSigmoid:
      return Map(stream, precision, size, SigmoidBackward{}, seen, dy, dx);
    case ActivationKind::kGelu:
      return Map(stream, precision, size, GeluBackward{}, seen, dy, dx);
  }
  return 0;
}

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
