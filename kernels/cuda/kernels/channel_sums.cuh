#ifndef SLUICE_KERNELS_CUDA_KERNELS_CHANNEL_SUMS_CUH_
#define SLUICE_KERNELS_CUDA_KERNELS_CHANNEL_SUMS_CUH_

#include <type_traits>

#include "kernels/cuda/kernels/block_sum.cuh"
#include "kernels/cuda/kernels/channel_geometry.h"
#include "kernels/cuda/kernels/launch.cuh"

// Sums over images, one pair for each channel, in two steps: in parts, as
// ChannelGeometry cuts them, and then of a channel's parts. F has At(c), what
// it wants to know of channel c, and a Pair operator()(that, n, a, b), what an
// element of sample n adds; where images are rows of channels n is the row.
namespace sluice::kernels::cuda {

// A block for each part of each channel. Neighbours in a block read
// neighbouring pixels, 4 bytes each: whole lines where planes are long, which
// need not begin at a multiple of 16 bytes.
template <typename F>
__global__ void __launch_bounds__(kBlock)
    PlaneSumsKernel(ChannelGeometry g, F f, const float* a, const float* b,
                    Pair* parts) {
  const uint32_t c = blockIdx.x, begin = blockIdx.y * g.splits.size;
  const uint32_t end =
      g.count - begin < g.splits.size ? g.count : begin + g.splits.size;
  const auto of = f.At(c);
  Pair sum = {0, 0};
  for (uint32_t e = begin + threadIdx.x; e < end; e += kBlock) {
    // (n channels + c) pixels + p, where e is n pixels + p.
    const uint32_t n = g.by_pixels(e);
    const uint32_t i = e + (n * (g.channels - 1) + c) * g.by_pixels.divisor();
    sum = sum + f(of, n, a[i], b[i]);
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) parts[c * g.splits.parts + blockIdx.y] = sum;
}

// The `kPack` numbers at `from`, at once where they are aligned.
template <typename Type, uint32_t kPack>
__device__ inline void LoadPack(const typename Type::Stored* from, bool vector,
                                float (&to)[kPack]) {
  if constexpr (kPack == Pack<Type>::kSize) {
    if (vector) {
      const auto pack = *reinterpret_cast<const Pack<Type>*>(from);
      for (uint32_t j = 0; j < kPack; ++j) to[j] = Type::Widen(pack.v[j]);
      return;
    }
  }
  for (uint32_t j = 0; j < kPack; ++j) to[j] = Type::Widen(from[j]);
}

// The same for rows of channels. A thread adds up its pack's numbers in every
// row that it has; then one for each channel those of the rows of threads.
template <typename Type, uint32_t kPack, typename F>
__global__ void __launch_bounds__(kBlock)
    ColumnSumsKernel(ChannelGeometry g, F f, bool vector,
                     const typename Type::Stored* a,
                     const typename Type::Stored* b, Pair* parts) {
  // A warp's threads write side by side, and read from other banks.
  __shared__ Pair of_thread[kPack][kBlock + 1];
  const uint32_t row = g.by_width(threadIdx.x);
  const uint32_t column = g.by_width.Rest(threadIdx.x, row);
  const uint32_t first = blockIdx.x * g.width() * kPack;  // The block's.
  const uint32_t mine = first + column * kPack;
  const uint32_t begin = blockIdx.y * g.splits.size;
  const uint32_t end =
      g.count - begin < g.splits.size ? g.count : begin + g.splits.size;
  Pair sum[kPack] = {};
  if (row < g.rows() && mine < g.channels) {
    decltype(f.At(0)) of[kPack];
    for (uint32_t j = 0; j < kPack; ++j) of[j] = f.At(mine + j);
    for (uint32_t n = begin + row; n < end; n += g.rows()) {
      float u[kPack], v[kPack];
      LoadPack<Type>(a + n * g.channels + mine, vector, u);
      LoadPack<Type>(b + n * g.channels + mine, vector, v);
      for (uint32_t j = 0; j < kPack; ++j) {
        sum[j] = sum[j] + f(of[j], n, u[j], v[j]);
      }
    }
  }
  for (uint32_t j = 0; j < kPack; ++j) of_thread[j][threadIdx.x] = sum[j];
  __syncthreads();
  const uint32_t c = first + threadIdx.x;
  if (threadIdx.x >= g.width() * kPack || c >= g.channels) return;
  Pair total = {0, 0};
  for (uint32_t r = 0; r < g.rows(); ++r) {
    total = total +
            of_thread[threadIdx.x % kPack][r * g.width() + threadIdx.x / kPack];
  }
  parts[c * g.splits.parts + blockIdx.y] = total;
}

// What follows from each channel's sums: f(channel, sums). A thread adds up the
// parts of a channel, or where there are many a warp.
template <typename F>
struct FinishChannel {
  uint32_t count;  // Of parts.
  const Pair* parts;
  F f;

  __device__ void operator()(uint32_t c) const {
    Pair sum = {0, 0};
    for (uint32_t s = 0; s < count; ++s) sum = sum + parts[c * count + s];
    f(c, sum);
  }
};

template <typename F>
__global__ void __launch_bounds__(kBlock)
    FinishKernel(uint32_t channels, uint32_t count, const Pair* parts, F f) {
  const uint32_t c = blockIdx.x * kWarpsOfBlock + threadIdx.x / kWarp;
  const uint32_t lane = threadIdx.x % kWarp;
  if (c >= channels) return;  // The whole warp.
  Pair sum = {0, 0};
  for (uint32_t s = lane; s < count; s += kWarp) {
    sum = sum + parts[c * count + s];
  }
  sum = WarpSum(sum);
  if (lane == 0) f(c, sum);
}

template <typename F>
int Finish(Stream stream, const ChannelGeometry& g, const Pair* parts,
           const F& f) {
  const uint32_t count = g.splits.parts;
  if (count <= kWarp) {
    return ForEach(stream, g.channels, FinishChannel<F>{count, parts, f});
  }
  return Launch(FinishKernel<F>, {Ceiling(g.channels, kWarpsOfBlock)}, stream,
                g.channels, count, parts, f);
}

// The parts of the channels' sums over f(f.At(c), n, a[i], b[i]), of arrays of
// `Type`.
template <typename Type, typename F>
int SumsOf(Stream stream, const ChannelGeometry& g, const F& f, const void* a,
           const void* b, Pair* parts) {
  using Stored = typename Type::Stored;
  const auto* first = static_cast<const Stored*>(a);
  const auto* second = static_cast<const Stored*>(b);
  const Grid grid = {g.across, g.splits.parts};
  if constexpr (std::is_same_v<Type, Fp32>) {  // Others have channels last.
    if (g.by_pixels.divisor() > 1) {
      return Launch(PlaneSumsKernel<F>, grid, stream, g, f, first, second,
                    parts);
    }
  }
  const bool vector = Aligned(a) && Aligned(b);
  return Launch(g.pack == 1 ? ColumnSumsKernel<Type, 1, F>
                            : ColumnSumsKernel<Type, Pack<Type>::kSize, F>,
                grid, stream, g, f, vector, first, second, parts);
}

// The same of activations.
template <typename F>
int Sums(Stream stream, Precision precision, const ChannelGeometry& g,
         const F& f, const void* a, const void* b, Pair* parts) {
  return WithType(precision, [&](auto type) {
    return SumsOf<decltype(type)>(stream, g, f, a, b, parts);
  });
}

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_KERNELS_CHANNEL_SUMS_CUH_
