// The gradient of a token is a sum over the places that have it, which are
// known at run time only. Added to the tokens by atomics they would not give
// the same bits twice; so a block looks at all places, and adds up its token's
// in an order that depends on nothing but these.
//
// 512 places, of which 3, 40 and 300 have token 5:
//
//   warp 0    looks at 0 to 31 and 256 to 287: dy of 3
//   warp 1    looks at 32 to 63 and 288 to 319: dy of 40, then of 300
//   the sum   warp 0's, then warp 1's, ...
#include "kernels/cuda/kernels/block_sum.cuh"
#include "kernels/cuda/kernels/fast_divide.h"

namespace sluice::kernels::cuda {
namespace {

// y (samples, length, features).
struct LookUp {
  FastDivide by_features;
  FastDivide by_length;
  const float* x;
  const float* token;
  const float* position;

  SLUICE_HOST_DEVICE float operator()(uint32_t i, float, float) const {
    const uint32_t place = by_features(i), c = by_features.Rest(i, place);
    const uint32_t t = by_length.Rest(place, by_length(place));
    const uint32_t features = by_features.divisor();
    return token[static_cast<uint32_t>(x[place]) * features + c] +
           position[t * features + c];
  }
};

// A block for each token and 32 features, a thread of a warp for each of them.
// The warps have every eighth 32 places: each looks which of them have the
// token, and adds up these in order.
template <typename Type>
__global__ void __launch_bounds__(kBlock)
    TokenGradientKernel(uint32_t places, uint32_t features, bool add,
                        const float* x, const typename Type::Stored* dy,
                        float* dtoken) {
  __shared__ double of_warp[kWarpsOfBlock][kWarp];
  const uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const uint32_t c = blockIdx.y * kWarp + lane;
  const auto token = static_cast<float>(blockIdx.x);
  double sum = 0;
  for (uint32_t first = warp * kWarp; first < places; first += kBlock) {
    const bool found = first + lane < places && x[first + lane] == token;
    uint32_t left = __ballot_sync(kAllLanes, found);
    for (; left != 0; left &= left - 1) {
      const uint32_t place = first + static_cast<uint32_t>(__ffs(left)) - 1;
      if (c < features) sum += Type::Widen(dy[place * features + c]);
    }
  }
  of_warp[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || c >= features) return;
  for (uint32_t w = 1; w < kWarpsOfBlock; ++w) sum += of_warp[w][lane];
  float* to = dtoken + blockIdx.x * features + c;
  *to = static_cast<float>(add ? *to + sum : sum);
}

}  // namespace

int EmbeddingForward(Stream stream, Precision precision,
                     const EmbeddingShape& shape, int64_t samples,
                     const float* x, const float* token, const float* position,
                     void* y) {
  const LookUp look_up = {FastDivide(static_cast<uint32_t>(shape.features)),
                          FastDivide(static_cast<uint32_t>(shape.length)), x,
                          token, position};
  return Map(stream, precision, samples * shape.output_size(), look_up, y, y);
}

int EmbeddingTokenGradient(Stream stream, Precision precision,
                           const EmbeddingShape& shape, int64_t samples,
                           const float* x, const void* dy, bool add,
                           float* dtoken) {
  const auto features = static_cast<uint32_t>(shape.features);
  const Grid grid = {static_cast<uint32_t>(shape.vocabulary),
                     Ceiling(features, kWarp)};
  return WithType(precision, [&](auto type) {
    using Type = decltype(type);
    return Launch(TokenGradientKernel<Type>, grid, stream,
                  static_cast<uint32_t>(samples * shape.length), features, add,
                  x, static_cast<const typename Type::Stored*>(dy), dtoken);
  });
}

}  // namespace sluice::kernels::cuda
