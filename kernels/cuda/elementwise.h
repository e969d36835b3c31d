#ifndef SLUICE_KERNELS_CUDA_ELEMENTWISE_H_
#define SLUICE_KERNELS_CUDA_ELEMENTWISE_H_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/fast_divide.h"
#include "kernels/cuda/host_device.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/philox.h"

// What a thread of an elementwise kernel does. Formulas as in
// kernels/reference.
namespace sluice::kernels::cuda {

// Whether 16 bytes at a time can be moved from and to there.
inline bool Aligned(const void* p) {
  return reinterpret_cast<uintptr_t>(p) % sizeof(Quad) == 0;
}

// Thread t computes out[i] = f(i, a[i], b[i]) for i = 4 t to 4 t + 3. `out` may
// be `a` or `b`.
template <typename F>
struct MapQuads {
  uint32_t size;
  F f;
  const float* a;
  const float* b;
  float* out;
  bool vector;  // All three are aligned.

  SLUICE_HOST_DEVICE void operator()(uint32_t t) const {
    const uint32_t begin = 4 * t;
    if (vector && size - begin >= 4) {
      const Quad u = *reinterpret_cast<const Quad*>(a + begin);
      const Quad v = *reinterpret_cast<const Quad*>(b + begin);
      Quad result;
      for (uint32_t j = 0; j < 4; ++j) {
        result.v[j] = f(begin + j, u.v[j], v.v[j]);
      }
      *reinterpret_cast<Quad*>(out + begin) = result;
      return;
    }
    for (uint32_t i = begin; i < size && i < begin + 4; ++i) {
      out[i] = f(i, a[i], b[i]);
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

// The channel of element i of (samples, channels, pixels).
struct ChannelOf {
  FastDivide by_pixels;
  FastDivide by_channels;

  SLUICE_HOST_DEVICE uint32_t operator()(uint32_t i) const {
    const uint32_t plane = by_pixels(i);
    return by_channels.Rest(plane, by_channels(plane));
  }
};

struct AddChannelBias {
  ChannelOf channel;
  const float* bias;

  SLUICE_HOST_DEVICE float operator()(uint32_t i, float y, float) const {
    return y + bias[channel(i)];
  }
};
struct AddChannelBiasRelu {
  AddChannelBias add;

  SLUICE_HOST_DEVICE float operator()(uint32_t i, float y, float) const {
    return ReluForward{}(i, add(i, y, y), 0);
  }
};

// A draw travels to device memory as a kernel's argument, so that nobody waits.
struct CopyDraw {
  DropoutDraw draw;
  DropoutDraw* to;

  SLUICE_HOST_DEVICE void operator()(uint32_t) const { *to = draw; }
};

// Thread t computes the numbers of block draw->first / 4 + t of the draw.
struct DropoutQuads {
  uint32_t size;
  uint32_t threshold;
  float scale;
  const DropoutDraw* draw;
  const float* x;
  float* y;
  bool vector;  // Both are aligned.

  // Enough wherever in a block the draw begins.
  SLUICE_HOST_DEVICE uint32_t threads() const {
    return static_cast<uint32_t>((uint64_t{size} + 3 + 3) / 4);
  }

  SLUICE_HOST_DEVICE void operator()(uint32_t t) const {
    const uint64_t first = draw->first;
    const PhiloxBlock bits(draw->key, first / 4 + t);
    const auto skipped = static_cast<uint32_t>(first % 4);
    if (vector && skipped == 0 && size >= 4 * t + 4) {
      const Quad u = *reinterpret_cast<const Quad*>(x + 4 * t);
      Quad result;
      for (uint32_t j = 0; j < 4; ++j) {
        result.v[j] = bits.v[j] >= threshold ? scale * u.v[j] : 0;
      }
      *reinterpret_cast<Quad*>(y + 4 * t) = result;
      return;
    }
    for (uint32_t j = 0; j < 4; ++j) {
      const uint32_t at = 4 * t + j;  // Counted from the first block's start.
      if (at < skipped || at - skipped >= size) continue;
      const uint32_t i = at - skipped;
      y[i] = bits.v[j] >= threshold ? scale * x[i] : 0;
    }
  }
};

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_ELEMENTWISE_H_
