// A block has a piece of the vector (kernels.h), and a thread the groups of
// four that lie kBlock apart in it. Where x and y are aligned a group is moved
// at once, else float by float; which thread has it, and when, is the same. So
// a sum of squares has the same bits at any address.
#include "kernels/cuda/kernels/block_sum.cuh"
#include "kernels/cuda/kernels/quads.cuh"

namespace sluice::kernels::cuda {
namespace {

// What both have.
__device__ inline ParameterRange Overlap(const ParameterRange& a,
                                         const ParameterRange& b) {
  return {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
}

// Calls f(begin, count) for this thread's parts of a piece: the floats of a
// group of four of the vector, then of those a block's threads further on. What
// a thread has and in which order depends on the piece alone.
template <typename F>
__device__ inline void ForGroups(const ParameterRange& piece, const F& f) {
  for (int64_t group = piece.begin / 4 + threadIdx.x; 4 * group < piece.end;
       group += kBlock) {
    const ParameterRange part = Overlap(piece, {4 * group, 4 * group + 4});
    f(part.begin, static_cast<uint32_t>(part.end - part.begin));
  }
}

// Where the flat vectors begin: memory may hold their pieces and no more.
struct Beginnings {
  const float* x;
  float* y;
};

struct ScaleFloat {
  float a;
  __device__ float operator()(float x, float) const { return a * x; }
};
struct AddFloat {
  float a;
  __device__ float operator()(float x, float y) const { return fmaf(a, x, y); }
};

// y = f(x, y); y is looked at where kReads says so. `vector`: x and y are
// aligned.
template <bool kReads, typename F>
__global__ void __launch_bounds__(kBlock)
    MapVectorKernel(const ParameterRange* pieces, ParameterRange within, F f,
                    bool vector, Beginnings at) {
  ForGroups(Overlap(pieces[blockIdx.x], within),
            [&](int64_t begin, uint32_t count) {
              const bool whole = vector && count == 4;
              Quad u = Load<Fp32>(at.x + begin, count, whole), v = {};
              if (kReads) v = Load<Fp32>(at.y + begin, count, whole);
              for (uint32_t j = 0; j < 4; ++j) u.v[j] = f(u.v[j], v.v[j]);
              Store<Fp32>(u, count, whole, at.y + begin);
            });
}

template <bool kReads, typename F>
int MapVector(Stream stream, int64_t count, const ParameterRange* pieces,
              const ParameterRange& within, const F& f, const float* x,
              float* y) {
  if (count == 0) return 0;
  return Launch(MapVectorKernel<kReads, F>, {static_cast<uint32_t>(count)},
                stream, pieces, within, f, Aligned(x) && Aligned(y),
                Beginnings{x, y});
}

// A square of a float is exact in double.
__global__ void __launch_bounds__(kBlock)
    SquaresKernel(const ParameterRange* pieces, bool vector, Beginnings at,
                  Pair* parts) {
  double sum = 0;
  ForGroups(pieces[blockIdx.x], [&](int64_t begin, uint32_t count) {
    // What a group does not have is zero and changes no sum of squares.
    const Quad u = Load<Fp32>(at.x + begin, count, vector && count == 4);
    for (uint32_t j = 0; j < 4; ++j) {
      sum += static_cast<double>(u.v[j]) * u.v[j];
    }
  });
  const Pair of_block = BlockSum({sum, 0});
  if (threadIdx.x == 0) parts[blockIdx.x] = of_block;
}

}  // namespace

int ScaleVector(Stream stream, int64_t count, const ParameterRange* pieces,
                ParameterRange within, float a, const float* x, float* y) {
  return MapVector<false>(stream, count, pieces, within, ScaleFloat{a}, x, y);
}

int AddVector(Stream stream, int64_t count, const ParameterRange* pieces,
              ParameterRange within, float a, const float* x, float* y) {
  return MapVector<true>(stream, count, pieces, within, AddFloat{a}, x, y);
}

int SquaresOfVector(Stream stream, int64_t count, const ParameterRange* pieces,
                    const float* x, Pair* parts, Pair* total) {
  const auto blocks = static_cast<uint32_t>(count);
  const int error = Launch(SquaresKernel, {blocks}, stream, pieces, Aligned(x),
                           Beginnings{x, nullptr}, parts);
  if (error != 0) return error;
  return Total(stream, blocks, parts, total);
}

}  // namespace sluice::kernels::cuda
