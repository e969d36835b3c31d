#ifndef SLUICE_KERNELS_CUDA_WINDOWS_H_
#define SLUICE_KERNELS_CUDA_WINDOWS_H_

#include <cstdint>

#include "kernels/cuda/fast_divide.h"
#include "kernels/cuda/host_device.h"
#include "kernels/shapes.h"

// What a thread of a pooling kernel does. Formulas as in kernels/reference. The
// gradient at an element is gathered from the windows it lies in, in row-major
// order, so that nothing is added by two threads and the sum is the
// reference's.
namespace sluice::kernels::cuda {

struct Windows {
  explicit Windows(const PoolShape& s)
      : width(static_cast<uint32_t>(s.width)),
        height(static_cast<uint32_t>(s.height)),
        kernel(static_cast<uint32_t>(s.kernel)),
        by_width(width),
        by_height(height),
        by_stride(static_cast<uint32_t>(s.stride)),
        by_columns(static_cast<uint32_t>(s.output_width())),
        by_rows(static_cast<uint32_t>(s.output_height())) {}

  // Index into x of the top left of window i.
  SLUICE_HOST_DEVICE uint32_t Start(uint32_t i) const {
    const uint32_t above = by_columns(i), column = by_columns.Rest(i, above);
    const uint32_t plane = by_rows(above), row = by_rows.Rest(above, plane);
    return Start(plane, row, column);
  }
  SLUICE_HOST_DEVICE uint32_t Start(uint32_t plane, uint32_t row,
                                    uint32_t column) const {
    const uint32_t stride = by_stride.divisor();
    return (plane * height + row * stride) * width + column * stride;
  }

  // Index into x of the first largest value of the window that starts there.
  SLUICE_HOST_DEVICE uint32_t FirstMaximum(const float* x,
                                           uint32_t start) const {
    uint32_t best = start;
    for (uint32_t r = 0; r < kernel; ++r) {
      for (uint32_t c = 0; c < kernel; ++c) {
        const uint32_t i = start + r * width + c;
        if (x[i] > x[best]) best = i;
      }
    }
    return best;
  }

  // Calls f(window, its start) for those that element i of x lies in.
  template <typename F>
  SLUICE_HOST_DEVICE void ForThoseAround(uint32_t i, const F& f) const {
    const uint32_t above = by_width(i), column = by_width.Rest(i, above);
    const uint32_t plane = by_height(above), row = by_height.Rest(above, plane);
    const uint32_t rows = by_rows.divisor(), columns = by_columns.divisor();
    for (uint32_t r = First(row); r < rows && r <= by_stride(row); ++r) {
      for (uint32_t c = First(column); c < columns && c <= by_stride(column);
           ++c) {
        f((plane * rows + r) * columns + c, Start(plane, r, c));
      }
    }
  }
  // The first window that reaches to `place`.
  SLUICE_HOST_DEVICE uint32_t First(uint32_t place) const {
    return place < kernel ? 0 : by_stride(place - kernel) + 1;
  }

  uint32_t width, height, kernel;
  FastDivide by_width, by_height, by_stride, by_columns, by_rows;
};

// Thread i has window i.
struct MaxForward {
  Windows windows;
  const float* x;
  float* y;

  SLUICE_HOST_DEVICE void operator()(uint32_t i) const {
    y[i] = x[windows.FirstMaximum(x, windows.Start(i))];
  }
};

// Thread i has element i of x.
struct MaxBackward {
  Windows windows;
  const float* x;
  const float* dy;
  float* dx;

  SLUICE_HOST_DEVICE void operator()(uint32_t i) const {
    float sum = 0;
    windows.ForThoseAround(i, [&](uint32_t window, uint32_t start) {
      if (windows.FirstMaximum(x, start) == i) sum += dy[window];
    });
    dx[i] = sum;
  }
};

struct AverageForward {
  Windows windows;
  const float* x;
  float* y;

  SLUICE_HOST_DEVICE void operator()(uint32_t i) const {
    const uint32_t start = windows.Start(i), kernel = windows.kernel;
    double sum = 0;
    for (uint32_t r = 0; r < kernel; ++r) {
      for (uint32_t c = 0; c < kernel; ++c) {
        sum += x[start + r * windows.width + c];
      }
    }
    y[i] = static_cast<float>(sum / (static_cast<double>(kernel) * kernel));
  }
};

struct AverageBackward {
  Windows windows;
  const float* dy;
  float* dx;

  SLUICE_HOST_DEVICE void operator()(uint32_t i) const {
    const auto kernel = static_cast<float>(windows.kernel);
    float sum = 0;
    windows.ForThoseAround(i, [&](uint32_t window, uint32_t) {
      sum += dy[window] / (kernel * kernel);
    });
    dx[i] = sum;
  }
};

// Element i of dx, whose plane has dy in equal parts.
struct GlobalAverageBackward {
  FastDivide by_pixels;
  const float* dy;

  SLUICE_HOST_DEVICE float operator()(uint32_t i, float, float) const {
    return dy[by_pixels(i)] / static_cast<float>(by_pixels.divisor());
  }
};

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_WINDOWS_H_
