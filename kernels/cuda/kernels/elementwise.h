#ifndef SLUICE_KERNELS_CUDA_KERNELS_ELEMENTWISE_H_
#define SLUICE_KERNELS_CUDA_KERNELS_ELEMENTWISE_H_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/kernels/fast_divide.h"
#include "kernels/cuda/kernels/host_device.h"
#include "kernels/cuda/kernels/kernels.h"
#include "kernels/cuda/kernels/number_types.h"

// What a thread of an elementwise kernel does. Formulas as in
// kernels/reference.
namespace sluice::kernels::cuda {

// Whether 16 bytes at a time can be moved from and to there.
inline bool Aligned(const void* p) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0;
}

// Thread t computes out[i] = f(i, a[i], b[i]), in floats, for the numbers of
// pack t. `out` may be `a` or `b`.
template <typename Type, typename F>
struct MapPacks {
  using Stored = typename Type::Stored;

  uint32_t size;
  F f;
  const Stored* a;
  const Stored* b;
  Stored* out;
  bool vector;  // All three are aligned.

  SLUICE_HOST_DEVICE void operator()(uint32_t t) const {
    constexpr uint32_t kSize = Pack<Type>::kSize;
    const uint32_t begin = kSize * t;
    if (vector && size - begin >= kSize) {
      const auto u = *reinterpret_cast<const Pack<Type>*>(a + begin);
      const auto v = *reinterpret_cast<const Pack<Type>*>(b + begin);
      Pack<Type> result;
      for (uint32_t j = 0; j < kSize; ++j) {
        result.v[j] = Type::Narrow(
            f(begin + j, Type::Widen(u.v[j]), Type::Widen(v.v[j])));
      }
      *reinterpret_cast<Pack<Type>*>(out + begin) = result;
      return;
    }
    for (uint32_t i = begin; i < size && i < begin + kSize; ++i) {
      out[i] = Type::Narrow(f(i, Type::Widen(a[i]), Type::Widen(b[i])));
    }
  }
};

// NaN stays NaN.
struct ReluForward {
  SLUICE_HOST_DEVICE float operator()(uint32_t, float x, float) const {
    return x <= 0 ? 0 : x;
  }
};
struct ReluBackward {
  SLUICE_HOST_DEVICE float operator()(uint32_t, float y, float dy) const {
    return y > 0 ? dy : 0;
  }
};

struct TanhForward {
  SLUICE_HOST_DEVICE float operator()(uint32_t, float x, float) const {
    return tanhf(x);
  }
};
struct TanhBackward {
  SLUICE_HOST_DEVICE float operator()(uint32_t, float y, float dy) const {
    return dy * (1 - y * y);
  }
};

struct SigmoidForward {
  SLUICE_HOST_DEVICE float operator()(uint32_t, float x, float) const {
    return 1 / (1 + expf(-x));
  }
};
struct SigmoidBackward {
  SLUICE_HOST_DEVICE float operator()(uint32_t, float y, float dy) const {
    return dy * (y * (1 - y));
  }
};

// The share of a standard normal variable that lies below x: erfc keeps the
// digits that 1 + erf would lose where x is far below 0.
SLUICE_HOST_DEVICE inline float NormalBelow(float x) {
  return 0.5f * erfcf(x * -0.70710678f);
}
struct GeluForward {
  SLUICE_HOST_DEVICE float operator()(uint32_t, float x, float) const {
    return x * NormalBelow(x);
  }
};
struct GeluBackward {
  SLUICE_HOST_DEVICE float operator()(uint32_t, float x, float dy) const {
    const float density = 0.39894228f * expf(x * x * -0.5f);
    return dy * (NormalBelow(x) + x * density);
  }
};

struct Add {
  SLUICE_HOST_DEVICE float operator()(uint32_t, float a, float b) const {
    return a + b;
  }
};

// With channels last an image is as many rows of channels as it has pixels:
// pixels of a channel that lie side by side.
inline int64_t PixelsOfPlane(Precision precision, int64_t pixels) {
  return Is16Bit(precision) ? 1 : pixels;
}

// The channel of element i of images.
struct ChannelOf {
  ChannelOf(Precision precision, int64_t channels, int64_t pixels)
      : by_pixels(static_cast<uint32_t>(PixelsOfPlane(precision, pixels))),
        by_channels(static_cast<uint32_t>(channels)) {}

  FastDivide by_pixels;
  FastDivide by_channels;

  SLUICE_HOST_DEVICE uint32_t operator()(uint32_t i) const {
    const uint32_t plane = by_pixels(i);
    return by_channels.Rest(plane, by_channels(plane));
  }
};

// Relu of what f makes.
template <typename F>
struct ThenRelu {
  F f;

  SLUICE_HOST_DEVICE auto At(uint32_t c) const { return f.At(c); }
  template <typename Key>
  SLUICE_HOST_DEVICE float operator()(const Key& key, float a, float b) const {
    return ReluForward{}(0, f(key, a, b), 0);
  }
};

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_KERNELS_ELEMENTWISE_H_
