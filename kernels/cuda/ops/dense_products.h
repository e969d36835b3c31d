#ifndef SLUICE_KERNELS_CUDA_OPS_DENSE_PRODUCTS_H_
#define SLUICE_KERNELS_CUDA_OPS_DENSE_PRODUCTS_H_

#include <cstdint>

#include "kernels/cuda/gpu_device.h"
#include "kernels/shapes.h"

// A dense layer's products as cuBLAS wants them. A row-major (r, c) array is,
// column-major, its transpose (c, r), packed as well; so every array is taken
// as its transpose, and nothing is moved.
namespace sluice::kernels::cuda {

// y = x w^T + b, so y^T (outputs, samples) = w x^T: A is w, in memory
// w^T (inputs, outputs), transposed; B is x^T (inputs, samples).
inline ProductShape ForwardProduct(const DenseShape& s, int64_t samples,
                                   bool fused_bias) {
  return {.rows = s.outputs,
          .columns = samples,
          .inner = s.inputs,
          .transpose_a = true,
          .bias = fused_bias};
}

// dx = dy w, so dx^T (inputs, samples) = w^T dy^T: A is w^T (inputs, outputs)
// as it lies there, B is dy^T (outputs, samples).
inline ProductShape InputGradientProduct(const DenseShape& s, int64_t samples) {
  return {.rows = s.inputs, .columns = samples, .inner = s.outputs};
}

// dw = dy^T x, so dw^T (inputs, outputs) = x^T dy: A is x^T (inputs, samples)
// as it lies there; B is dy, in memory dy^T (outputs, samples), transposed.
inline ProductShape WeightGradientProduct(const DenseShape& s,
                                          int64_t samples) {
  return {.rows = s.inputs,
          .columns = s.outputs,
          .inner = samples,
          .transpose_b = true};
}

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_OPS_DENSE_PRODUCTS_H_
