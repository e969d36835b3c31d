#ifndef SLUICE_KERNELS_CUDA_WINDOWS_H_
#define SLUICE_KERNELS_CUDA_WINDOWS_H_

#include <cstdint>

#include "kernels/cuda/fast_divide.h"
#include "kernels/cuda/host_device.h"
#include "kernels/shapes.h"

// Where the windows of a pooling lie.
namespace sluice::kernels::cuda {

// What of a window lies in the image.
struct Window {
  uint32_t first;  // Index into x of its first element.
  uint32_t rows, columns;
};

// Over images (planes, height, width, inner): where channels are last, `inner`
// are the groups of neighbouring channels that a thread takes together, else 1;
// so neighbouring threads have neighbouring memory. Indices count groups.
struct Windows {
  Windows(const PoolShape& s, uint32_t inner)
      : width(static_cast<uint32_t>(s.width)),
        height(static_cast<uint32_t>(s.height)),
        kernel(static_cast<uint32_t>(s.kernel)),
        padding(static_cast<uint32_t>(s.padding)),
        by_inner(inner),
        by_width(width),
        by_height(height),
        by_stride(static_cast<uint32_t>(s.stride)),
        by_columns(static_cast<uint32_t>(s.output_width())),
        by_rows(static_cast<uint32_t>(s.output_height())) {}

  // Window i.
  SLUICE_HOST_DEVICE Window At(uint32_t i) const {
    const uint32_t place = by_inner(i), inner = by_inner.Rest(i, place);
    const uint32_t above = by_columns(place);
    const uint32_t column = by_columns.Rest(place, above);
    const uint32_t plane = by_rows(above), row = by_rows.Rest(above, plane);
    return At(plane, row, column, inner);
  }
  SLUICE_HOST_DEVICE Window At(uint32_t plane, uint32_t row, uint32_t column,
                               uint32_t inner) const {
    const uint32_t top = Begin(row), left = Begin(column);
    const uint32_t place = (plane * height + top) * width + left;
    return {place * by_inner.divisor() + inner, End(row, height) - top,
            End(column, width) - left};
  }

  // Calls f(index into x) for each element of the window in row-major order.
  template <typename F>
  SLUICE_HOST_DEVICE void ForEachIn(const Window& window, const F& f) const {
    for (uint32_t r = 0; r < window.rows; ++r) {
      for (uint32_t c = 0; c < window.columns; ++c) {
        f(window.first + (r * width + c) * by_inner.divisor());
      }
    }
  }

  // Calls f(its number, window) for those that element i of x lies in.
  template <typename F>
  SLUICE_HOST_DEVICE void ForThoseAround(uint32_t i, const F& f) const {
    const uint32_t place = by_inner(i), inner = by_inner.Rest(i, place);
    const uint32_t above = by_width(place);
    const uint32_t column = by_width.Rest(place, above);
    const uint32_t plane = by_height(above), row = by_height.Rest(above, plane);
    const uint32_t rows = by_rows.divisor(), columns = by_columns.divisor();
    for (uint32_t r = First(row); r < rows && r <= Last(row); ++r) {
      for (uint32_t c = First(column); c < columns && c <= Last(column); ++c) {
        const uint32_t window = (plane * rows + r) * columns + c;
        f(window * by_inner.divisor() + inner, At(plane, r, c, inner));
      }
    }
  }

  // Along one axis: where the part of a window that lies in the image begins,
  // and where it ends. A window is longer than the padding.
  SLUICE_HOST_DEVICE uint32_t Begin(uint32_t window) const {
    const uint32_t begin = window * by_stride.divisor();
    return begin > padding ? begin - padding : 0;
  }
  SLUICE_HOST_DEVICE uint32_t End(uint32_t window, uint32_t length) const {
    const uint32_t end = window * by_stride.divisor() + kernel - padding;
    return end < length ? end : length;
  }
  // The first and the last window that reach to `place`, were there no end of
  // windows.
  SLUICE_HOST_DEVICE uint32_t First(uint32_t place) const {
    const uint32_t padded = place + padding;
    return padded < kernel ? 0 : by_stride(padded - kernel) + 1;
  }
  SLUICE_HOST_DEVICE uint32_t Last(uint32_t place) const {
    return by_stride(place + padding);
  }

  uint32_t width, height, kernel, padding;
  FastDivide by_inner, by_width, by_height, by_stride, by_columns, by_rows;
};

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_WINDOWS_H_
