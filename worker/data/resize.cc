// From 4 pixels to 2: s = f = 2, and y(0) has its centre c at 1:
//
//   j            0     1     2     3
//   j + 1/2 - c -1/2   1/2   3/2   5/2
//   t            3/4   3/4   1/4   0      y(0) = (3 x0 + 3 x1 + x2) / 7
//
// A row of the result is first summed over the rows it covers, in the order of
// memory, then over columns. A pixel's four values stay together, so that the
// compiler computes them at once.
#include "worker/data/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/status_macros.h"

namespace sluice {
namespace {

// A pixel's four values, computed at once.
typedef float Pixel __attribute__((vector_size(kPixelBytes * sizeof(float))));

Pixel Load(const float* values) {
  Pixel pixel;
  std::memcpy(&pixel, values, sizeof(pixel));
  return pixel;
}

// The weighted sum of `taps` rows of `width` pixels, from `first` on. Those of
// weight 0 are not read: they may lie behind the image.
__attribute__((always_inline)) inline void SumRowsOf(const uint8_t* first,
                                                     int64_t row_bytes,
                                                     int64_t width,
                                                     const float* weights,
                                                     int taps, float* sum) {
  const int64_t values = width * kPixelBytes;
  for (int64_t i = 0; i < values; ++i) {
    sum[i] = weights[0] * static_cast<float>(first[i]);
  }
  for (int tap = 1; tap < taps && weights[tap] != 0; ++tap) {
    const uint8_t* row = first + tap * row_bytes;
    for (int64_t i = 0; i < values; ++i) {
      sum[i] += weights[tap] * static_cast<float>(row[i]);
    }
  }
}

// Eight floats at a time, to the same bits, as nothing is contracted to an fma.
__attribute__((target("avx2"))) void SumRowsAvx2(const uint8_t* first,
                                                 int64_t row_bytes,
                                                 int64_t width,
                                                 const float* weights, int taps,
                                                 float* sum) {
  SumRowsOf(first, row_bytes, width, weights, taps, sum);
}

void SumRows(const uint8_t* first, int64_t row_bytes, int64_t width,
             const float* weights, int taps, float* sum) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  (has_avx2 ? SumRowsAvx2 : SumRowsOf)(first, row_bytes, width, weights, taps,
                                       sum);
}

}  // namespace

Resize::Resize(const Options& options) : options_(options) {
  SLUICE_CHECK(options.size >= 1);
  for (int c = 0; c < 3; ++c) {
    scale_[c] = 1 / (255 * options.deviation[c]);
    shift_[c] = -options.mean[c] / options.deviation[c];
  }
}

void Resize::Filter::Prepare(int64_t from, int64_t size) {
  if (from == pixels) return;
  pixels = from;
  const double s = static_cast<double>(from) / static_cast<double>(size);
  const double f = std::max(s, 1.0);
  const auto centre = [s](int64_t i) {
    return (static_cast<double>(i) + 0.5) * s;
  };
  const auto end = [&](int64_t i) {
    return std::min<int64_t>(from, static_cast<int64_t>(centre(i) + f + 0.5));
  };
  first.resize(size);
  taps = 0;
  for (int64_t i = 0; i < size; ++i) {
    first[i] = std::max<int64_t>(0, static_cast<int64_t>(centre(i) - f + 0.5));
    taps = std::max(taps, static_cast<int>(end(i) - first[i]));
  }
  weights.assign(size * taps, 0);
  std::vector<double> exact(taps);
  for (int64_t i = 0; i < size; ++i) {
    const int64_t count = end(i) - first[i];
    double sum = 0;
    for (int64_t j = 0; j < count; ++j) {
      const double u =
          (static_cast<double>(first[i] + j) + 0.5 - centre(i)) / f;
      exact[j] = std::max(0.0, 1 - std::abs(u));
      sum += exact[j];
    }
    for (int64_t j = 0; j < count; ++j) {
      weights[i * taps + j] = static_cast<float>(exact[j] / sum);
    }
  }
}

void Resize::Run(const PixelView& from, bool mirrored, float* to) {
  const int64_t size = options_.size;
  rows_.Prepare(from.height, size);
  columns_.Prepare(from.width, size);
  // Behind the last column lie zeros, for taps of weight 0.
  row_.assign((from.width + columns_.taps) * kPixelBytes, 0);
  for (int64_t y = 0; y < size; ++y) {
    const float* weights = rows_.weights.data() + y * rows_.taps;
    SumRows(from.at(rows_.first[y], 0), from.row_bytes, from.width, weights,
            rows_.taps, row_.data());
    for (int64_t x = 0; x < size; ++x) {
      const float* pixel = row_.data() + columns_.first[x] * kPixelBytes;
      const float* weight = columns_.weights.data() + x * columns_.taps;
      Pixel sum = {};
      for (int tap = 0; tap < columns_.taps; ++tap, pixel += kPixelBytes) {
        sum += weight[tap] * Load(pixel);
      }
      float* at = to + y * size + (mirrored ? size - 1 - x : x);
      for (int c = 0; c < 3; ++c, at += size * size) {
        *at = sum[c] * scale_[c] + shift_[c];
      }
    }
  }
}

}  // namespace sluice
