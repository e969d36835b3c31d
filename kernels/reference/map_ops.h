#ifndef SLUICE_KERNELS_REFERENCE_MAP_OPS_H_
#define SLUICE_KERNELS_REFERENCE_MAP_OPS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/shapes.h"

// The specification of pooling and activations. T is float, or double for the
// gradient check. Arguments as kernels::MapOp says; `size` and `planes` count
// those of all samples.
namespace sluice::kernels::reference {

// Calls f(y index, x index of the window's top left) for every window of every
// channel of every sample.
template <typename F>
void ForEachWindow(const PoolShape& s, int64_t samples, F f) {
  const int64_t rows = s.output_height(), columns = s.output_width();
  for (int64_t plane = 0; plane < samples * s.channels; ++plane) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        f((plane * rows + r) * columns + c,
          (plane * s.height + r * s.stride) * s.width + c * s.stride);
      }
    }
  }
}

// Index of the first largest value of the window whose top left is at `start`.
template <typename T>
int64_t FirstMaximum(const PoolShape& s, const T* x, int64_t start) {
  int64_t best = start;
  for (int64_t r = 0; r < s.kernel; ++r) {
    for (int64_t c = 0; c < s.kernel; ++c) {
      const int64_t i = start + r * s.width + c;
      if (x[i] > x[best]) best = i;
    }
  }
  return best;
}

// y = the largest value of each window.
template <typename T>
void MaxPoolForward(const PoolShape& s, int64_t samples, const T* x, T* y) {
  ForEachWindow(s, samples, [&](int64_t yi, int64_t start) {
    y[yi] = x[FirstMaximum(s, x, start)];
  });
}

// Each dy goes to the first maximum of its window; windows may overlap.
template <typename T>
void MaxPoolBackward(const PoolShape& s, int64_t samples, const T* x,
                     const T* dy, T* dx) {
  std::fill(dx, dx + samples * s.input_size(), T{0});
  ForEachWindow(s, samples, [&](int64_t yi, int64_t start) {
    dx[FirstMaximum(s, x, start)] += dy[yi];
  });
}

// y = the mean of each window.
template <typename T>
void AveragePoolForward(const PoolShape& s, int64_t samples, const T* x, T* y) {
  const double area = static_cast<double>(s.kernel) * s.kernel;
  ForEachWindow(s, samples, [&](int64_t yi, int64_t start) {
    double sum = 0;
    for (int64_t r = 0; r < s.kernel; ++r) {
      for (int64_t c = 0; c < s.kernel; ++c) sum += x[start + r * s.width + c];
    }
    y[yi] = static_cast<T>(sum / area);
  });
}

// Each dy goes to its window in equal parts.
template <typename T>
void AveragePoolBackward(const PoolShape& s, int64_t samples, const T* dy,
                         T* dx) {
  const double area = static_cast<double>(s.kernel) * s.kernel;
  std::fill(dx, dx + samples * s.input_size(), T{0});
  ForEachWindow(s, samples, [&](int64_t yi, int64_t start) {
    for (int64_t r = 0; r < s.kernel; ++r) {
      for (int64_t c = 0; c < s.kernel; ++c) {
        dx[start + r * s.width + c] += static_cast<T>(dy[yi] / area);
      }
    }
  });
}

// y = max(x, 0); NaN stays NaN, so that a poisoned gradient is seen.
template <typename T>
void ReluForward(int64_t size, const T* x, T* y) {
  for (int64_t i = 0; i < size; ++i) y[i] = x[i] <= 0 ? 0 : x[i];
}

// dx = dy where y > 0, else 0.
template <typename T>
void ReluBackward(int64_t size, const T* y, const T* dy, T* dx) {
  for (int64_t i = 0; i < size; ++i) dx[i] = y[i] > 0 ? dy[i] : 0;
}

template <typename T>
void TanhForward(int64_t size, const T* x, T* y) {
  for (int64_t i = 0; i < size; ++i) {
    y[i] = static_cast<T>(std::tanh(static_cast<double>(x[i])));
  }
}

// dx = dy (1 - y^2)
template <typename T>
void TanhBackward(int64_t size, const T* y, const T* dy, T* dx) {
  for (int64_t i = 0; i < size; ++i) dx[i] = dy[i] * (1 - y[i] * y[i]);
}

// y = 1 / (1 + exp(-x))
template <typename T>
void SigmoidForward(int64_t size, const T* x, T* y) {
  for (int64_t i = 0; i < size; ++i) {
    y[i] = static_cast<T>(1 / (1 + std::exp(-static_cast<double>(x[i]))));
  }
}

// dx = dy y (1 - y)
template <typename T>
void SigmoidBackward(int64_t size, const T* y, const T* dy, T* dx) {
  for (int64_t i = 0; i < size; ++i) dx[i] = dy[i] * (y[i] * (1 - y[i]));
}

// The share of a standard normal variable that lies below x.
inline double NormalBelow(double x) {
  return (1 + std::erf(x * M_SQRT1_2)) / 2;
}

// y = x NormalBelow(x)
template <typename T>
void GeluForward(int64_t size, const T* x, T* y) {
  for (int64_t i = 0; i < size; ++i) {
    y[i] = static_cast<T>(x[i] * NormalBelow(x[i]));
  }
}

// dx = dy (NormalBelow(x) + x exp(-x^2 / 2) / sqrt(2 pi))
template <typename T>
void GeluBackward(int64_t size, const T* x, const T* dy, T* dx) {
  for (int64_t i = 0; i < size; ++i) {
    const double v = x[i];
    const double density = std::exp(-v * v / 2) * M_2_SQRTPI * M_SQRT1_2 / 2;
    dx[i] = static_cast<T>(dy[i] * (NormalBelow(v) + v * density));
  }
}

// y = the mean of each of `planes` planes.
template <typename T>
void GlobalAveragePoolForward(int64_t planes, int64_t pixels, const T* x,
                              T* y) {
  for (int64_t p = 0; p < planes; ++p) {
    double sum = 0;
    for (int64_t i = 0; i < pixels; ++i) sum += x[p * pixels + i];
    y[p] = static_cast<T>(sum / static_cast<double>(pixels));
  }
}

// Each dy goes to its plane in equal parts.
template <typename T>
void GlobalAveragePoolBackward(int64_t planes, int64_t pixels, const T* dy,
                               T* dx) {
  for (int64_t p = 0; p < planes; ++p) {
    const T share = static_cast<T>(dy[p] / static_cast<double>(pixels));
    std::fill_n(dx + p * pixels, pixels, share);
  }
}

}  // namespace sluice::kernels::reference

#endif  // SLUICE_KERNELS_REFERENCE_MAP_OPS_H_
