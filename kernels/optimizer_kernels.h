#ifndef SLUICE_KERNELS_OPTIMIZER_KERNELS_H_
#define SLUICE_KERNELS_OPTIMIZER_KERNELS_H_

#include <cstdint>

#include "absl/types/span.h"

// The sum of an update's gradients and the optimizer's step, fused into one
// pass over memory. One function per optimizer; each has a plain twin, the
// specification, which gives the same bits.
namespace sluice::kernels {

// The gradients of one update and what each counts, in summation order.
struct WeightedGradients {
  absl::Span<const float* const> gradients;  // Each (n).
  absl::Span<const float> weights;           // As many; at least one.
};

struct SgdOptions {
  float learning_rate = 0;
  float momentum = 0;
  bool nesterov = false;
  float weight_decay = 0;
};

// One step of SGD with heavy-ball (Polyak 1964) or Nesterov momentum (in the
// form of Sutskever et al. 2013) on the weighted sum of K gradients:
//
//   g <- a_1 g_1;  g <- a_i g_i + g         for i = 2..K, in order
//   g <- weight_decay * w + g               unless weight_decay is 0
//   v <- momentum * v + g                   unless momentum is 0
//   s  = g, or v with momentum, or momentum * v + g with Nesterov's
//   w' <- w - learning_rate * s
//
// Shapes   all are (n); n may be 0. `velocity` is v, read and written; it is
//          not looked at, and may be null, when momentum is 0.
// Aliasing `updated` may be `weights`; no others may overlap.
// Numerics fp32, one fma per line above (the first is a product). An element's
//          bits depend on its inputs only: not on alignment, position, vector
//          width or instruction set.
// Threads  none; any number of calls may run at once on different memory.
void SgdUpdate(const SgdOptions& options, const WeightedGradients& gradients,
               int64_t n, const float* weights, float* velocity,
               float* updated);

// The same as plain loops.
void SgdUpdateReference(const SgdOptions& options,
                        const WeightedGradients& gradients, int64_t n,
                        const float* weights, float* velocity, float* updated);

// The position of the first NaN or infinity, or -1 when there is none.
int64_t FirstNonFinite(absl::Span<const float> values);

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_OPTIMIZER_KERNELS_H_
