#ifndef SLUICE_KERNELS_CUDA_DROPOUT_H_
#define SLUICE_KERNELS_CUDA_DROPOUT_H_

#include <cstdint>

#include "kernels/cuda/fast_divide.h"
#include "kernels/cuda/host_device.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/number_types.h"
#include "kernels/cuda/philox.h"

// What a thread of dropout's kernels does.
namespace sluice::kernels::cuda {

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

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_DROPOUT_H_
