#ifndef SLUICE_KERNELS_CUDA_WINDOWS_H_
#define SLUICE_KERNELS_CUDA_WINDOWS_H_

#include <cstdint>

#include "kernels/cuda/fast_divide.h"
#include "kernels/cuda/host_device.h"
#include "kernels/cuda/number_types.h"
#include "kernels/shapes.h"

// What a thread of a pooling kernel does. Formulas as in kernels/reference. The
// gradient at an element is gathered from the windows it lies in, in row-major
// order, so that nothing is added by two threads and the sum is the
// reference's.
namespace sluice::kernels::cuda {

// What of a window lies in the image.
struct Window {
  uint32_t first;  // Index into x of its first element.
  uint32_t rows, columns;
};

// Over images (planes, height, width, inner): `inner` is channels where they
// are last, so that neighbouring threads have neighbouring memory, else 1.
struct Windows {
  Windows(const PoolShape& s, bool channels_last)
      : width(static_cast<uint32_t>(s.width)),
        height(static_cast<uint32_t>(s.height)),
        kernel(static_cast<uint32_t>(s.kernel)),
        padding(static_cast<uint32_t>(s.padding)),
        by_inner(channels_last ? static_cast<uint32_t>(s.channels) : 1),
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

  // Index into x of the first largest value of the window.
  template <typename Type>
  SLUICE_HOST_DEVICE uint32_t FirstMaximum(const typename Type::Stored* x,
                                           const Window& window) const {
    uint32_t best = window.first;
    ForEachIn(window, [&](uint32_t i) {
      if (Type::Widen(x[i]) > Type::Widen(x[best])) best = i;
    });
    return best;
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

// Thread i has window i.
template <typename Type>
struct MaxForward {
  Windows windows;
  const typename Type::Stored* x;
  typename Type::Stored* y;

  SLUICE_HOST_DEVICE void operator()(uint32_t i) const {
    y[i] = x[windows.FirstMaximum<Type>(x, windows.At(i))];
  }
};

// Thread i has element i of x.
template <typename Type>
struct MaxBackward {
  Windows windows;
  const typename Type::Stored* x;
  const typename Type::Stored* dy;
  typename Type::Stored* dx;

  SLUICE_HOST_DEVICE void operator()(uint32_t i) const {
    float sum = 0;
    windows.ForThoseAround(i, [&](uint32_t number, const Window& window) {
      if (windows.FirstMaximum<Type>(x, window) == i) {
        sum += Type::Widen(dy[number]);
      }
    });
    dx[i] = Type::Narrow(sum);
  }
};

template <typename Type>
struct AverageForward {
  Windows windows;
  const typename Type::Stored* x;
  typename Type::Stored* y;

  SLUICE_HOST_DEVICE void operator()(uint32_t i) const {
    const Window window = windows.At(i);
    double sum = 0;
    windows.ForEachIn(window,
                      [&](uint32_t place) { sum += Type::Widen(x[place]); });
    y[i] = Type::Narrow(static_cast<float>(
        sum / (static_cast<double>(window.rows) * window.columns)));
  }
};

template <typename Type>
struct AverageBackward {
  Windows windows;
  const typename Type::Stored* dy;
  typename Type::Stored* dx;

  SLUICE_HOST_DEVICE void operator()(uint32_t i) const {
    float sum = 0;
    windows.ForThoseAround(i, [&](uint32_t number, const Window& window) {
      sum += Type::Widen(dy[number]) / (static_cast<float>(window.rows) *
                                        static_cast<float>(window.columns));
    });
    dx[i] = Type::Narrow(sum);
  }
};

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_WINDOWS_H_
