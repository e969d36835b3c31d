#ifndef SLUICE_KERNELS_REFERENCE_MAP_OPS_H_
#define SLUICE_KERNELS_REFERENCE_MAP_OPS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/random.h"
#include "kernels/shapes.h"

// The specification of pooling, activations and dropout. T is float, or double
// for the gradient check. Arguments as kernels::MapOp says; `size` and `planes`
// count those of all samples.
namespace sluice::kernels::reference {

// What of a window lies in the image: rows and columns of one plane.
struct Window {
  int64_t plane, top, bottom, left, right;

  double area() const {
    return static_cast<double>(bottom - top) *
           static_cast<double>(right - left);
  }
};

// Calls f(y index, window) for every window of every channel of every sample.
template <typename F>
void ForEachWindow(const PoolShape& s, int64_t samples, F f) {
  const int64_t rows = s.output_height(), columns = s.output_width();
  for (int64_t plane = 0; plane < samples * s.channels; ++plane) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t top = r * s.stride - s.padding;
        const int64_t left = c * s.stride - s.padding;
        f((plane * rows + r) * columns + c,
          Window{plane, std::max<int64_t>(top, 0),
                 std::min(top + s.kernel, s.height), std::max<int64_t>(left, 0),
                 std::min(left + s.kernel, s.width)});
      }
    }
  }
}

// Calls f(x index) for each element of the window in row-major order.
template <typename F>
void ForEachIn(const PoolShape& s, const Window& window, F f) {
  for (int64_t r = window.top; r < window.bottom; ++r) {
    for (int64_t c = window.left; c < window.right; ++c) {
      f((window.plane * s.height + r) * s.width + c);
    }
  }
}

// Index of the first largest value of the window; NaN is larger than any
// number.
template <typename T>
int64_t FirstMaximum(const PoolShape& s, const T* x, const Window& window) {
  int64_t best = (window.plane * s.height + window.top) * s.width + window.left;
  ForEachIn(s, window, [&](int64_t i) {
    if (x[i] > x[best] || (std::isnan(x[i]) && !std::isnan(x[best]))) best = i;
  });
  return best;
}

// y = the largest value of each window.
template <typename T>
void MaxPoolForward(const PoolShape& s, int64_t samples, const T* x, T* y) {
  ForEachWindow(s, samples, [&](int64_t yi, const Window& window) {
    y[yi] = x[FirstMaximum(s, x, window)];
  });
}

// Each dy goes to the first maximum of its window; windows may overlap.
template <typename T>
void MaxPoolBackward(const PoolShape& s, int64_t samples, const T* x,
                     const T* dy, T* dx) {
  std::fill(dx, dx + samples * s.input_size(), T{0});
  ForEachWindow(s, samples, [&](int64_t yi, const Window& window) {
    dx[FirstMaximum(s, x, window)] += dy[yi];
  });
}

// y = the mean of each window.
template <typename T>
void AveragePoolForward(const PoolShape& s, int64_t samples, const T* x, T* y) {
  ForEachWindow(s, samples, [&](int64_t yi, const Window& window) {
    double sum = 0;
    ForEachIn(s, window, [&](int64_t i) { sum += x[i]; });
    y[yi] = static_cast<T>(sum / window.area());
  });
}

// Each dy goes to its window in equal parts.
template <typename T>
void AveragePoolBackward(const PoolShape& s, int64_t samples, const T* dy,
                         T* dx) {
  std::fill(dx, dx + samples * s.input_size(), T{0});
  ForEachWindow(s, samples, [&](int64_t yi, const Window& window) {
    const T share = static_cast<T>(dy[yi] / window.area());
    ForEachIn(s, window, [&](int64_t i) { dx[i] += share; });
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

// As kernels::DropoutOp says, but `size` and `first` count numbers, not
// samples.
//
// Whether element i is kept: bits_(first + i) >= rate 2^32
// y_i = x_i / (1 - rate) when it is, else 0
inline void Dropout(int64_t size, double rate, uint64_t key, int64_t first,
                    const float* x, float* y) {
  const Random random(key, uint64_t{0});
  const auto threshold = static_cast<uint32_t>(rate * 0x1p32);
  const float scale = static_cast<float>(1 / (1 - rate));
  for (int64_t i = 0; i < size; ++i) {
    const uint32_t bits = random.Block((first + i) / 4)[(first + i) % 4];
    y[i] = bits >= threshold ? scale * x[i] : 0;
  }
}

}  // namespace sluice::kernels::reference

#endif  // SLUICE_KERNELS_REFERENCE_MAP_OPS_H_
