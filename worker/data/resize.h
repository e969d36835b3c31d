#ifndef SLUICE_WORKER_DATA_RESIZE_H_
#define SLUICE_WORKER_DATA_RESIZE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "worker/data/pixels.h"

namespace sluice {

// Resizes images to squares for a model: bilinear, and where the image shrinks
// over as many pixels as one of the result covers (the triangle filter of
// Pillow and torchvision):
//
//   y(i) = sum_j t((j + 1/2 - c) / f) x(j) / sum_j t((j + 1/2 - c) / f)
//   c = (i + 1/2) s,  s = pixels / size,  f = max(s, 1),  t(u) = max(0, 1 -
//   |u|)
//
// along each axis, rows first; then (y / 255 - mean) / deviation.
//
// Numerics FP32, weights rounded from double; the same on every machine.
// Not thread-safe: one for each thread.
class Resize {
 public:
  struct Options {
    int64_t size = 1;  // Height and width of the result.
    // Of red, green and blue.
    std::array<float, 3> mean = {0, 0, 0};
    std::array<float, 3> deviation = {1, 1, 1};
  };
  explicit Resize(const Options& options);

  // Writes (3, size, size) floats to `to`; `mirrored` left to right. REQUIRES:
  // `from` is not empty.
  void Run(const PixelView& from, bool mirrored, float* to);

 private:
  // Which pixels make up each pixel of the result, along one axis.
  struct Filter {
    void Prepare(int64_t pixels, int64_t size);

    int64_t pixels = 0;
    int taps = 0;                // The most of any.
    std::vector<int64_t> first;  // (size)
    std::vector<float> weights;  // (size, taps); 0 behind the last one.
  };

  const Options options_;
  std::array<float, 3> scale_, shift_;  // Of y: y * scale + shift.
  Filter rows_, columns_;
  std::vector<float> row_;  // (from.width + taps, 4): one row of the result.
};

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_RESIZE_H_
