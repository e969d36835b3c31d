#ifndef SLUICE_KERNELS_OPTIMIZER_KERNELS_H_
#define SLUICE_KERNELS_OPTIMIZER_KERNELS_H_

#include <cstdint>

#include "absl/types/span.h"

// The sum of an update's gradients and the optimizer's step, fused into one
// pass over memory. One function per optimizer; each has a plain twin
// (...Reference), the specification, which gives the same bits.
namespace sluice::kernels {

// The gradients of one update and what each counts, in summation order.
struct WeightedGradients {
  absl::Span<const float* const> gradients;  // Each (n).
  absl::Span<const float> factors;           // As many; at least one.
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
//          width or instruction set. REQUIRES, for that: the thread computes
//          as SetNumericMode says (numerics.h).
// Threads  none; any number of calls may run at once on different memory.
void SgdUpdate(const SgdOptions& options, const WeightedGradients& gradients,
               int64_t n, const float* weights, float* velocity,
               float* updated);

// The same as plain loops.
void SgdUpdateReference(const SgdOptions& options,
                        const WeightedGradients& gradients, int64_t n,
                        const float* weights, float* velocity, float* updated);

struct AdagradOptions {
  float learning_rate = 0;
  float weight_decay = 0;
};

// One step of Adagrad (Duchi et al. 2011, with a diagonal matrix) on the
// weighted sum of K gradients:
//
//   g  <- the sum and weight decay as in SgdUpdate
//   s  <- g * g + s
//   w' <- w - learning_rate * (g / sqrt(s))
//
// `accumulator` is s, read and written. REQUIRES: it starts above 0, which
// takes the place of an epsilon. Root and quotient are rounded correctly, and
// each line is one fma besides; all else as in SgdUpdate.
void AdagradUpdate(const AdagradOptions& options,
                   const WeightedGradients& gradients, int64_t n,
                   const float* weights, float* accumulator, float* updated);
void AdagradUpdateReference(const AdagradOptions& options,
                            const WeightedGradients& gradients, int64_t n,
                            const float* weights, float* accumulator,
                            float* updated);

struct AdamOptions {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  // AdamW: the decay moves the weights directly and is not part of g.
  bool decoupled = false;
  // Updates made with this one: t below. 1 or more.
  int64_t update = 1;
};

// What Adam's lines need of its options, rounded once. The powers of beta are
// taken in double by repeated squaring, from the lowest bit of t, so that they
// are the same on every machine.
struct AdamFactors {
  explicit AdamFactors(const AdamOptions& options);

  float beta1;
  float rest1;  // 1 - beta1
  float beta2;
  float rest2;  // 1 - beta2
  float root;   // 1 / sqrt(1 - beta2^t)
  float epsilon;
  float step;    // learning_rate / (1 - beta1^t)
  float decay;   // weight_decay, of Adam.
  float shrink;  // learning_rate * weight_decay, of AdamW.
};

// One step of Adam (Kingma, Ba 2015, algorithm 1) or AdamW (Loshchilov, Hutter
// 2019, algorithm 2) on the weighted sum of K gradients, at update t:
//
//   g  <- the sum, and for Adam the weight decay, as in SgdUpdate
//   m  <- beta1 * m + (1 - beta1) * g
//   v  <- beta2 * v + ((1 - beta2) * g) * g
//   d   = sqrt(v) * (1 / sqrt(1 - beta2^t)) + epsilon
//   w  <- w - (learning_rate * weight_decay) * w     AdamW, unless 0
//   w' <- w - (learning_rate / (1 - beta1^t)) * (m / d)
//
// `mean` is m and `square` is v, read and written; both start at 0. What is in
// brackets is rounded first (AdamFactors); root and quotient are rounded
// correctly, and each line is one fma besides; all else as in SgdUpdate.
void AdamUpdate(const AdamOptions& options, const WeightedGradients& gradients,
                int64_t n, const float* weights, float* mean, float* square,
                float* updated);
void AdamUpdateReference(const AdamOptions& options,
                         const WeightedGradients& gradients, int64_t n,
                         const float* weights, float* mean, float* square,
                         float* updated);

// g of SgdUpdate's first line. `sum` may be the first of the gradients; so a
// sum with weight 1 and a further gradient give the bits of the sum of all.
void WeightedSum(const WeightedGradients& gradients, int64_t n, float* sum);
void WeightedSumReference(const WeightedGradients& gradients, int64_t n,
                          float* sum);

// One step of a moving average of what K gradients carry, for statistics:
//
//   x   = the weighted sum           as in SgdUpdate
//   s'  <- s + share * (x - s)       one subtraction, one fma
//
// where the weights, each rounded once, add up to 1. `averages` is s; `updated`
// may be `averages`. All else as in SgdUpdate.
void MovingAverageUpdate(float share, const WeightedGradients& gradients,
                         int64_t n, const float* averages, float* updated);
void MovingAverageUpdateReference(float share,
                                  const WeightedGradients& gradients, int64_t n,
                                  const float* averages, float* updated);

// The position of the first NaN or infinity, or -1 when there is none.
int64_t FirstNonFinite(absl::Span<const float> values);

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_OPTIMIZER_KERNELS_H_
