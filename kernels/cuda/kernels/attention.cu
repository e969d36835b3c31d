// Both kernels have a warp for each row of scores, which is as long as the
// text: some hundred numbers to a few thousand. A row is read three times (its
// largest, the sum, the result) rather than kept in registers, as its length is
// not known when the kernel is compiled.
//
// What a thread has depends on the row alone (ForQuads), and a sum goes over
// the threads in a fixed tree, in double: so a row's bits do not depend on its
// alignment or on other rows. Place 200 of a text of 300 may look at 201
// places:
//
//   thread 0     places 0 to 3 and 128 to 131
//   thread 18    72 to 75 and 200
//   thread 19    76 to 79
//   all          of the result, 201 to 299 are zeros
#include "kernels/cuda/kernels/block_sum.cuh"
#include "kernels/cuda/kernels/fast_divide.h"
#include "kernels/cuda/kernels/quads.cuh"

namespace sluice::kernels::cuda {
namespace {

struct HeadDivisors {
  explicit HeadDivisors(const AttentionShape& s)
      : by_size(static_cast<uint32_t>(s.head_size)),
        by_length(static_cast<uint32_t>(s.length)),
        by_heads(static_cast<uint32_t>(s.heads)) {}

  FastDivide by_size;
  FastDivide by_length;
  FastDivide by_heads;
};

// (samples, heads, length, head_size).
template <typename Type>
struct SplitPart {
  HeadDivisors d;
  uint32_t parts;
  uint32_t part;
  // (samples, length, parts, heads, head_size)
  const typename Type::Stored* from;

  SLUICE_HOST_DEVICE float operator()(uint32_t i, float, float) const {
    const uint32_t row = d.by_size(i), c = d.by_size.Rest(i, row);
    const uint32_t head = d.by_length(row), t = d.by_length.Rest(row, head);
    const uint32_t n = d.by_heads(head), h = d.by_heads.Rest(head, n);
    const uint32_t place = (n * d.by_length.divisor() + t) * parts + part;
    const uint32_t above = place * d.by_heads.divisor() + h;
    return Type::Widen(from[above * d.by_size.divisor() + c]);
  }
};

// (samples, length, parts, heads, head_size).
struct MergeParts {
  HeadDivisors d;
  FastDivide by_parts;
  // Each (samples, heads, length, head_size); as many as there are parts.
  const float* first;
  const float* second;
  const float* third;

  SLUICE_HOST_DEVICE float operator()(uint32_t i, float, float) const {
    const uint32_t row = d.by_size(i), c = d.by_size.Rest(i, row);
    const uint32_t above = d.by_heads(row), h = d.by_heads.Rest(row, above);
    const uint32_t place = by_parts(above), part = by_parts.Rest(above, place);
    const uint32_t n = d.by_length(place), t = d.by_length.Rest(place, n);
    const float* from = part == 0 ? first : part == 1 ? second : third;
    const uint32_t head = n * d.by_heads.divisor() + h;
    return from[(head * d.by_length.divisor() + t) * d.by_size.divisor() + c];
  }
};

// A row of scores and the places that it may look at, those before `end`.
struct ScoreRow {
  FastDivide by_length;
  float scale;
  bool vector;

  // Of the warp's row, of which there are `rows`; end is 0 beyond them.
  struct Mine {
    uint32_t at;
    uint32_t end;
  };
  __device__ Mine Find(uint32_t rows) const {
    const uint32_t row = blockIdx.x * kWarpsOfBlock + threadIdx.x / kWarp;
    if (row >= rows) return {0, 0};
    const uint32_t place = by_length.Rest(row, by_length(row));
    return {row * by_length.divisor(), place + 1};
  }
};

// The largest over the warp's threads, in all of them.
__device__ inline float WarpLargest(float mine) {
  for (uint32_t step = kWarp / 2; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, mine, step);
    if (other > mine) mine = other;
  }
  return mine;
}

// A warp for each row. What a thread writes it alone has read.
__global__ void __launch_bounds__(kBlock)
    CausalSoftmaxKernel(uint32_t rows, ScoreRow f, float* scores) {
  const ScoreRow::Mine mine = f.Find(rows);
  if (mine.end == 0) return;  // The whole warp.
  float* s = scores + mine.at;
  float largest = -INFINITY;
  ForQuads(mine.end, [&](uint32_t begin, uint32_t count) {
    const Quad v = Load<Fp32>(s + begin, count, f.vector);
    for (uint32_t j = 0; j < count; ++j) {
      if (f.scale * v.v[j] > largest) largest = f.scale * v.v[j];
    }
  });
  largest = WarpLargest(largest);
  Pair sum = {0, 0};
  ForQuads(mine.end, [&](uint32_t begin, uint32_t count) {
    const Quad v = Load<Fp32>(s + begin, count, f.vector);
    for (uint32_t j = 0; j < count; ++j) {
      sum.first += expf(f.scale * v.v[j] - largest);
    }
  });
  const auto share = static_cast<float>(1 / WarpSumInAll(sum).first);
  ForQuads(f.by_length.divisor(), [&](uint32_t begin, uint32_t count) {
    const Quad v = Load<Fp32>(s + begin, count, f.vector);
    Quad p = {};
    for (uint32_t j = 0; j < count && begin + j < mine.end; ++j) {
      p.v[j] = expf(f.scale * v.v[j] - largest) * share;
    }
    Store<Fp32>(p, count, f.vector, s + begin);
  });
}

// Likewise: `gradient` is that at the probabilities before and that at the
// scores afterwards.
__global__ void __launch_bounds__(kBlock)
    CausalSoftmaxGradientKernel(uint32_t rows, ScoreRow f,
                                const float* probabilities, float* gradient) {
  const ScoreRow::Mine mine = f.Find(rows);
  if (mine.end == 0) return;  // The whole warp.
  const float* p = probabilities + mine.at;
  float* g = gradient + mine.at;
  Pair sum = {0, 0};
  ForQuads(mine.end, [&](uint32_t begin, uint32_t count) {
    const Quad u = Load<Fp32>(p + begin, count, f.vector);
    const Quad v = Load<Fp32>(g + begin, count, f.vector);
    for (uint32_t j = 0; j < count; ++j) {
      sum.first += static_cast<double>(u.v[j]) * v.v[j];
    }
  });
  const auto mean = static_cast<float>(WarpSumInAll(sum).first);
  ForQuads(f.by_length.divisor(), [&](uint32_t begin, uint32_t count) {
    const Quad u = Load<Fp32>(p + begin, count, f.vector);
    const Quad v = Load<Fp32>(g + begin, count, f.vector);
    Quad result = {};
    for (uint32_t j = 0; j < count && begin + j < mine.end; ++j) {
      result.v[j] = f.scale * (u.v[j] * (v.v[j] - mean));
    }
    Store<Fp32>(result, count, f.vector, g + begin);
  });
}

ScoreRow RowsOf(const AttentionShape& shape, bool aligned) {
  return {FastDivide(static_cast<uint32_t>(shape.length)),
          static_cast<float>(1 / sqrt(static_cast<double>(shape.head_size))),
          aligned};
}

uint32_t CountRows(const AttentionShape& shape, int64_t samples) {
  return static_cast<uint32_t>(samples * shape.heads * shape.length);
}

}  // namespace

int SplitHeads(Stream stream, Precision precision, Precision to_precision,
               const AttentionShape& shape, int64_t samples, int64_t parts,
               int64_t part, const void* from, void* to) {
  return WithType(precision, [&](auto type) {
    using Type = decltype(type);
    const SplitPart<Type> split = {
        HeadDivisors(shape), static_cast<uint32_t>(parts),
        static_cast<uint32_t>(part),
        static_cast<const typename Type::Stored*>(from)};
    return Map(stream, to_precision, samples * shape.output_size(), split, to,
               to);
  });
}

int MergeHeads(Stream stream, Precision precision, const AttentionShape& shape,
               int64_t samples, int64_t parts, const float* const from[3],
               void* to) {
  const MergeParts merge = {HeadDivisors(shape),
                            FastDivide(static_cast<uint32_t>(parts)), from[0],
                            from[1], from[2]};
  return Map(stream, precision, samples * parts * shape.output_size(), merge,
             to, to);
}

int CausalSoftmax(Stream stream, const AttentionShape& shape, int64_t samples,
                  float* scores) {
  const uint32_t rows = CountRows(shape, samples);
  if (rows == 0) return 0;
  return Launch(CausalSoftmaxKernel, {Ceiling(rows, kWarpsOfBlock)}, stream,
                rows, RowsOf(shape, RowsAligned<Fp32>(scores, shape.length)),
                scores);
}

int CausalSoftmaxGradient(Stream stream, const AttentionShape& shape,
                          int64_t samples, const float* probabilities,
                          float* gradient) {
  const uint32_t rows = CountRows(shape, samples);
  if (rows == 0) return 0;
  const bool aligned = RowsAligned<Fp32>(probabilities, shape.length) &&
                       RowsAligned<Fp32>(gradient, shape.length);
  return Launch(CausalSoftmaxGradientKernel, {Ceiling(rows, kWarpsOfBlock)},
                stream, rows, RowsOf(shape, aligned), probabilities, gradient);
}

}  // namespace sluice::kernels::cuda
