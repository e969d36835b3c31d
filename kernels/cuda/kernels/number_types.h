#ifndef SLUICE_KERNELS_CUDA_KERNELS_NUMBER_TYPES_H_
#define SLUICE_KERNELS_CUDA_KERNELS_NUMBER_TYPES_H_

#include <cstdint>
#include <cstring>

#include "kernels/cuda/kernels/host_device.h"
#include "kernels/cuda/precision.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

// The types of an array's numbers: floats, and two of 16 bits, as bits. Narrow
// rounds to the nearest, halves to the even one, what is too large to infinity;
// NaN becomes 0x7fff. Widen is exact. A GPU has instructions for it; the host's
// code gives the same bits.
namespace sluice::kernels::cuda {

inline uint32_t BitsOf(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
inline float FloatOf(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

struct Fp32 {
  using Stored = float;
  SLUICE_HOST_DEVICE static float Narrow(float x) { return x; }
  SLUICE_HOST_DEVICE static float Widen(float x) { return x; }
};

// A float's upper half: 8 bits of exponent, 7 of mantissa.
struct Bf16 {
  using Stored = uint16_t;
  SLUICE_HOST_DEVICE static uint16_t Narrow(float x) {
#if defined(__CUDA_ARCH__)
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
#else
    const uint32_t bits = BitsOf(x);
    if (x != x) return 0x7fff;
    // Half of the last place that stays, less one where that is even.
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#endif
  }
  SLUICE_HOST_DEVICE static float Widen(uint16_t half) {
#if defined(__CUDA_ARCH__)
    return __bfloat162float(__ushort_as_bfloat16(half));
#else
    return FloatOf(static_cast<uint32_t>(half) << 16);
#endif
  }
};

// IEEE's binary16: 5 bits of exponent, 10 of mantissa, with denormal numbers.
struct Fp16 {
  using Stored = uint16_t;
  SLUICE_HOST_DEVICE static uint16_t Narrow(float x) {
#if defined(__CUDA_ARCH__)
    return __half_as_ushort(__float2half_rn(x));
#else
    const uint32_t sign = BitsOf(x) >> 16 & 0x8000;
    const uint32_t size = BitsOf(x) & 0x7fffffff;
    uint32_t half = 0;
    if (size > kInfinity) return 0x7fff;
    if (size >= kTooLarge) {
      half = 0x7c00;
    } else if (size < kLeastNormal) {
      // 0.5's last place is 2^-24, a denormal number's.
      half = BitsOf(FloatOf(size) + 0.5f) - BitsOf(0.5f);
    } else {
      half = (size - kExponents + 0xfff + (size >> 13 & 1)) >> 13;
    }
    return static_cast<uint16_t>(sign | half);
#endif
  }
  SLUICE_HOST_DEVICE static float Widen(uint16_t half) {
#if defined(__CUDA_ARCH__)
    return __half2float(__ushort_as_half(half));
#else
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
    const uint32_t size = static_cast<uint32_t>(half & 0x7fff) << 13;
    if (size >= 0x7c00 << 13) return FloatOf(sign | kInfinity | size);
    if (size < 1 << 23) {
      const float denormal = static_cast<float>(half & 0x7fff) * 0x1p-24f;
      return FloatOf(sign | BitsOf(denormal));
    }
    return FloatOf(sign | (size + kExponents));
#endif
  }

 private:
  static constexpr uint32_t kInfinity = 0x7f800000;
  static constexpr uint32_t kTooLarge = 0x477ff000;     // 65520.
  static constexpr uint32_t kLeastNormal = 0x38800000;  // 2^-14.
  // Between the exponents' offsets, 127 and 15.
  static constexpr uint32_t kExponents = (127 - 15) << 23;
};

// Neighbours as they are stored, moved by one access. REQUIRES: they have at
// most 16 bytes.
template <typename T, uint32_t size>
struct alignas(size * sizeof(typename T::Stored)) Group {
  using Type = T;
  static constexpr uint32_t kSize = size;
  typename Type::Stored v[kSize];
};
// As many as one access can move: four floats, or eight numbers of 16 bits.
template <typename Type>
using Pack = Group<Type, 16 / sizeof(typename Type::Stored)>;

// What `f`, a generic function object, returns for the type of an array in
// `precision`.
template <typename F>
auto WithType(Precision precision, const F& f) {
  switch (precision) {
    case Precision::kBf16:
      return f(Bf16{});
    case Precision::kFp16:
      return f(Fp16{});
    case Precision::kFp32:
    case Precision::kTf32:
      break;
  }
  return f(Fp32{});
}

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_KERNELS_NUMBER_TYPES_H_
