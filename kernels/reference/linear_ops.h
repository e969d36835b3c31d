#ifndef SLUICE_KERNELS_REFERENCE_LINEAR_OPS_H_
#define SLUICE_KERNELS_REFERENCE_LINEAR_OPS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/shapes.h"

// The specification of dense and conv2d: one loop per index of the formula,
// sums in double and rounded once. T is float, or double for the gradient
// check. Arguments as kernels::LinearOp says.
namespace sluice::kernels::reference {

// y[n][o] = b[o] + sum_i x[n][i] w[o][i]
template <typename T>
void DenseForward(const DenseShape& s, int64_t samples, const T* x, const T* w,
                  const T* b, T* y) {
  for (int64_t n = 0; n < samples; ++n) {
    for (int64_t o = 0; o < s.outputs; ++o) {
      double sum = b == nullptr ? 0 : b[o];
      for (int64_t i = 0; i < s.inputs; ++i) {
        sum += static_cast<double>(x[n * s.inputs + i]) * w[o * s.inputs + i];
      }
      y[n * s.outputs + o] = static_cast<T>(sum);
    }
  }
}

// dx[n][i] = sum_o dy[n][o] w[o][i]
// dw[o][i] = sum_n dy[n][o] x[n][i]
// db[o]    = sum_n dy[n][o]
template <typename T>
void DenseBackward(const DenseShape& s, int64_t samples, const T* x, const T* w,
                   const T* dy, T* dx, T* dw, T* db) {
  for (int64_t n = 0; dx != nullptr && n < samples; ++n) {
    for (int64_t i = 0; i < s.inputs; ++i) {
      double sum = 0;
      for (int64_t o = 0; o < s.outputs; ++o) {
        sum += static_cast<double>(dy[n * s.outputs + o]) * w[o * s.inputs + i];
      }
      dx[n * s.inputs + i] = static_cast<T>(sum);
    }
  }
  for (int64_t o = 0; o < s.outputs; ++o) {
    for (int64_t i = 0; i < s.inputs; ++i) {
      double sum = 0;
      for (int64_t n = 0; n < samples; ++n) {
        sum += static_cast<double>(dy[n * s.outputs + o]) * x[n * s.inputs + i];
      }
      dw[o * s.inputs + i] = static_cast<T>(sum);
    }
    double sum = 0;
    for (int64_t n = 0; n < samples; ++n) sum += dy[n * s.outputs + o];
    if (db != nullptr) db[o] = static_cast<T>(sum);
  }
}

// Calls f(x index, w index, y index) for every product of the convolution
// whose pixel lies inside the image; indices into one sample.
template <typename F>
void ForEachConvProduct(const Conv2dShape& s, F f) {
  const int64_t rows = s.output_height(), columns = s.output_width();
  for (int64_t o = 0; o < s.outputs; ++o) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        for (int64_t i = 0; i < s.inputs; ++i) {
          for (int64_t kr = 0; kr < s.kernel; ++kr) {
            for (int64_t kc = 0; kc < s.kernel; ++kc) {
              const int64_t row = r * s.stride + kr - s.padding;
              const int64_t column = c * s.stride + kc - s.padding;
              if (row < 0 || row >= s.height) continue;
              if (column < 0 || column >= s.width) continue;
              f((i * s.height + row) * s.width + column,
                ((o * s.inputs + i) * s.kernel + kr) * s.kernel + kc,
                (o * rows + r) * columns + c);
            }
          }
        }
      }
    }
  }
}

// y[n][o][r][c] = b[o] + sum over i, kr, kc of
//     w[o][i][kr][kc] x[n][i][r stride + kr - padding][c stride + kc - padding]
template <typename T>
void Conv2dForward(const Conv2dShape& s, int64_t samples, const T* x,
                   const T* w, const T* b, T* y) {
  const int64_t size = s.output_size(), pixels = size / s.outputs;
  std::vector<double> sums(size);
  for (int64_t n = 0; n < samples; ++n) {
    for (int64_t j = 0; j < size; ++j) {
      sums[j] = b == nullptr ? 0 : b[j / pixels];
    }
    const T* xn = x + n * s.input_size();
    ForEachConvProduct(s, [&](int64_t xi, int64_t wi, int64_t yi) {
      sums[yi] += static_cast<double>(xn[xi]) * w[wi];
    });
    std::transform(sums.begin(), sums.end(), y + n * size,
                   [](double sum) { return static_cast<T>(sum); });
  }
}

// The transposed sums: each product of the forward formula gives one term of
// dx and one of dw.
template <typename T>
void Conv2dBackward(const Conv2dShape& s, int64_t samples, const T* x,
                    const T* w, const T* dy, T* dx, T* dw, T* db) {
  const int64_t size = s.output_size(), pixels = size / s.outputs;
  std::vector<double> dw_sums(s.weight_size()), db_sums(s.outputs);
  std::vector<double> dx_sums(s.input_size());
  for (int64_t n = 0; n < samples; ++n) {
    const T* xn = x + n * s.input_size();
    const T* dyn = dy + n * size;
    std::fill(dx_sums.begin(), dx_sums.end(), 0);
    ForEachConvProduct(s, [&](int64_t xi, int64_t wi, int64_t yi) {
      dw_sums[wi] += static_cast<double>(dyn[yi]) * xn[xi];
      dx_sums[xi] += static_cast<double>(dyn[yi]) * w[wi];
    });
    for (int64_t j = 0; j < size; ++j) db_sums[j / pixels] += dyn[j];
    for (int64_t j = 0; dx != nullptr && j < s.input_size(); ++j) {
      dx[n * s.input_size() + j] = static_cast<T>(dx_sums[j]);
    }
  }
  for (int64_t j = 0; j < s.weight_size(); ++j) {
    dw[j] = static_cast<T>(dw_sums[j]);
  }
  for (int64_t o = 0; db != nullptr && o < s.outputs; ++o) {
    db[o] = static_cast<T>(db_sums[o]);
  }
}

}  // namespace sluice::kernels::reference

#endif  // SLUICE_KERNELS_REFERENCE_LINEAR_OPS_H_
