#ifndef SLUICE_WORKER_DATA_PIXELS_H_
#define SLUICE_WORKER_DATA_PIXELS_H_

#include <cstdint>

namespace sluice {

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
};

// A part of an image, in pixels.
struct Rectangle {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;
};

constexpr int kPixelBytes = 4;  // Red, green, blue and one that means nothing.

// Pixels in somebody else's memory.
struct PixelView {
  const uint8_t* at(int64_t y, int64_t x) const {
    return first + y * row_bytes + x * kPixelBytes;
  }

  const uint8_t* first = nullptr;
  int64_t row_bytes = 0;
  int64_t height = 0;
  int64_t width = 0;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_PIXELS_H_
