#ifndef SLUICE_KERNELS_CUDA_KERNELS_LAUNCH_CUH_
#define SLUICE_KERNELS_CUDA_KERNELS_LAUNCH_CUH_

#include <cstdint>

#include "kernels/cuda/kernels/elementwise.h"
#include "kernels/cuda/kernels/kernels.h"
#include "kernels/cuda/kernels/launch_geometry.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#else
#include "kernels/cuda/testing/emulation.h"
#endif

namespace sluice::kernels::cuda {

struct Grid {
  uint32_t width;
  uint32_t height = 1;
};

#if defined(__CUDACC__)

// Runs `kernel` in blocks of kBlock threads.
template <typename... Parameters, typename... Arguments>
int Launch(void (*kernel)(Parameters...), Grid grid, Stream stream,
           const Arguments&... arguments) {
  kernel<<<dim3(grid.width, grid.height), kBlock, 0, stream>>>(arguments...);
  return cudaGetLastError();
}

#else

template <typename... Parameters, typename... Arguments>
int Launch(void (*kernel)(Parameters...), Grid grid, Stream,
           const Arguments&... arguments) {
  if (!(emulation::MayBeGiven(arguments) && ...)) {
    return emulation::kNotOnDevice;
  }
  emulation::Execute([=] {
    emulation::Run({grid.width, grid.height}, kBlock,
                   [&] { kernel(arguments...); });
  });
  return 0;
}

#endif

template <typename F>
__global__ void __launch_bounds__(kBlock) ForEachKernel(uint32_t count, F f) {
  const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
  if (i < count) f(i);
}

// f(i) for each i in [0, count), each on a thread of its own.
template <typename F>
int ForEach(Stream stream, uint32_t count, const F& f) {
  if (count == 0) return 0;
#if defined(__CUDACC__)
  return Launch(ForEachKernel<F>, {Blocks(count)}, stream, count, f);
#else
  // They do not wait for each other.
  emulation::Execute([=] {
    emulation::RunEach({Blocks(count), 1}, kBlock,
                       [&] { ForEachKernel(count, f); });
  });
  return 0;
#endif
}

// out[i] = f(i, a[i], b[i]), in floats; all three are arrays of `Type`.
template <typename Type, typename F>
int MapAs(Stream stream, int64_t size, const F& f, const void* a, const void* b,
          void* out) {
  using Stored = typename Type::Stored;
#if !defined(__CUDACC__)
  for (const void* array : {a, b, static_cast<const void*>(out)}) {
    if (!emulation::MayBeGiven(array)) return emulation::kNotOnDevice;
  }
#endif
  const auto numbers = static_cast<uint32_t>(size);
  const bool vector = Aligned(a) && Aligned(b) && Aligned(out);
  return ForEach(stream, Ceiling(numbers, Pack<Type>::kSize),
                 MapPacks<Type, F>{numbers, f, static_cast<const Stored*>(a),
                                   static_cast<const Stored*>(b),
                                   static_cast<Stored*>(out), vector});
}

// The same for arrays of activations.
template <typename F>
int Map(Stream stream, Precision precision, int64_t size, const F& f,
        const void* a, const void* b, void* out) {
  return WithType(precision, [&](auto type) {
    return MapAs<decltype(type)>(stream, size, f, a, b, out);
  });
}
template <typename F>
int Map(Stream stream, Precision precision, int64_t size, const F& f,
        const void* a, void* out) {
  // What is not looked at is not read.
  return Map(stream, precision, size, f, a, a, out);
}

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_KERNELS_LAUNCH_CUH_
