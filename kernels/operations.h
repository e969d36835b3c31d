#ifndef SLUICE_KERNELS_OPERATIONS_H_
#define SLUICE_KERNELS_OPERATIONS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice::kernels {

// What all operations have in common:
//
// Shapes    `samples` is 0 to the maximum the operation was prepared for;
//           every array has it as its first dimension.
// Memory    all pointers are device memory (see Device), aligned as their
//           numbers; alignment beyond that never changes a bit of the result.
// Types     `float*` are floats in row-major order. `void*` are activations,
//           and the gradients at them, in the device's own type and order (see
//           Device::activation_bytes): what one operation writes, another
//           reads.
// Aliasing  no output overlaps any other argument, unless said.
// Numerics  the result is a function of the arguments alone, never of what
//           ran before.
// Threads   not thread-safe: call from a thread that entered the device. On
//           a device with queues, calls run in their order and may return
//           before they are done; Accelerator::Synchronize waits.
// Errors    kInternal where the device's library fails.

// Activations of a device that has them as floats.
inline const float* AsFloats(const void* activations) {
  return static_cast<const float*>(activations);
}
inline float* AsFloats(void* activations) {
  return static_cast<float*>(activations);
}

// An operation with weights: dense or conv2d.
class LinearOp {
 public:
  virtual ~LinearOp() = default;
  // y = w applied to x, plus b, and relu of that where the shape has one: the
  // same bits as with relu by itself. `b` is nullptr when the shape has no
  // bias.
  virtual absl::Status Forward(int64_t samples, const void* x, const float* w,
                               const float* b, void* y) = 0;
  // From `dy`, the gradient at y, or at what relu makes y of: `dw` and `db` are
  // summed over the samples and overwritten (zero when `samples` is 0); `dx` is
  // left out when it is nullptr, `db` is nullptr when the shape has no bias.
  virtual absl::Status Backward(int64_t samples, const void* x, const float* w,
                                const void* dy, void* dx, float* dw,
                                float* db) = 0;
};

// An operation without weights: pooling, an activation, attention or flatten.
class MapOp {
 public:
  virtual ~MapOp() = default;
  // Activations other than gelu may run in place: `y` may be `x`.
  virtual absl::Status Forward(int64_t samples, const void* x, void* y) = 0;
  // `x` and `y` are those of a Forward. Activations look at `y` only (gelu at
  // `x` only: its `y` belongs to two of them); their `dx` may be `dy`. The
  // maximum of a window is its first in row-major order.
  virtual absl::Status Backward(int64_t samples, const void* x, const void* y,
                                const void* dy, void* dx) = 0;
};

// Makes activations of a mini-batch's inputs, floats (samples, channels,
// pixels).
class InputOp {
 public:
  virtual ~InputOp() = default;
  virtual absl::Status Run(int64_t samples, const float* x, void* y) = 0;
};

// Leaves out a share of the numbers, and scales the others so that their
// expected sum stays (Srivastava et al. 2014, in the inverted form).
class DropoutOp {
 public:
  virtual ~DropoutOp() = default;
  struct Draw {
    uint64_t key = 0;
    int64_t first = 0;  // Samples that the draw has before those of the call.
  };
  // Of the calls of Run from now on, those of recordings too; at first there is
  // none. Not to be called while operations are recorded.
  virtual absl::Status SetDraw(std::optional<Draw> draw) = 0;
  // Forward with x and y, backward with dy and dx: number i, counted from the
  // draw's first sample in row-major order, is kept and multiplied by float(1 /
  // (1 - rate)) when the i-th of the 32-bit numbers of Random(key, 0), block
  // after block, is at least rate * 2^32 (rounded down); else it becomes 0. So
  // samples may be computed in parts. Without a draw all are kept as they are;
  // what was recorded with a draw must be run with one. `y` may be `x`. The
  // same bits on every device.
  virtual absl::Status Run(int64_t samples, const void* x, void* y) = 0;
};

// y = a + b, elementwise, or relu of that: as in LinearOp, the same bits as
// with relu by itself.
class SumOp {
 public:
  virtual ~SumOp() = default;
  // `y` may be `a` or `b`.
  virtual absl::Status Run(int64_t samples, const void* a, const void* b,
                           void* y) = 0;
};

// Brings each channel to mean 0 and variance 1, and from there to a mean and a
// deviation that are learned (Ioffe, Szegedy 2015):
//
//   y = gamma (x - mean) / sqrt(variance + epsilon) + beta,
//
// and relu of that where the shape has one, as in LinearOp.
// `x` and `y` are (samples, channels, pixels); gamma, beta, mean, variance and
// their gradients (channels).
class BatchNormOp {
 public:
  virtual ~BatchNormOp() = default;
  // With the mini-batch's own mean and variance, which are written: taken over
  // samples and pixels, the variance as the mean of (x - mean)^2; both are 0
  // when `samples` is 0.
  virtual absl::Status Normalize(int64_t samples, const void* x,
                                 const float* gamma, const float* beta,
                                 float* mean, float* variance, void* y) = 0;
  // With those given.
  virtual absl::Status Apply(int64_t samples, const void* x, const float* gamma,
                             const float* beta, const float* mean,
                             const float* variance, void* y) = 0;
  // After Normalize, which wrote `mean` and `variance`; as LinearOp's.
  virtual absl::Status Backward(int64_t samples, const void* x,
                                const float* gamma, const float* mean,
                                const float* variance, const void* dy, void* dx,
                                float* dgamma, float* dbeta) = 0;
};

// Looks up tokens in one table and their places in another:
//
//   y[n][t] = token[x[n][t]] + position[t]
//
// `x` (samples, length) are inputs, whole numbers in [0, vocabulary), `y`
// (samples, length, features), `token` (vocabulary, features), `position`
// (length, features).
class EmbeddingOp {
 public:
  virtual ~EmbeddingOp() = default;
  virtual absl::Status Forward(int64_t samples, const float* x,
                               const float* token, const float* position,
                               void* y) = 0;
  // From `dy`, the gradient at y: `dposition` is summed over the samples and
  // overwritten, `dtoken` over all places of a token, in an order that depends
  // on the sizes and on x alone. With `add` that is added to what `dtoken` has
  // (the part of another layer with the same weights), else it is overwritten.
  virtual absl::Status Backward(int64_t samples, const float* x, const void* dy,
                                bool add, float* dtoken, float* dposition) = 0;
};

// Brings each row, or each group of an image's channels, to mean 0 and variance
// 1, and from there to what is learned for each of the features (Ba, Kiros,
// Hinton 2016; Wu, He 2018): LayerNormShape has the formula.
//
// `x` and `y` are (samples, rows, features), or images (samples, features,
// pixels); gamma, beta and their gradients (features).
class LayerNormOp {
 public:
  virtual ~LayerNormOp() = default;
  virtual absl::Status Forward(int64_t samples, const void* x,
                               const float* gamma, const float* beta,
                               void* y) = 0;
  // As LinearOp's.
  virtual absl::Status Backward(int64_t samples, const void* x,
                                const float* gamma, const void* dy, void* dx,
                                float* dgamma, float* dbeta) = 0;
};

struct LossResult {
  double loss = 0;      // Mean over the samples; 0 for none.
  int64_t correct = 0;  // Cross-entropy: argmax is the label (ties: lowest).
};

// -log softmax(logits)[label], mean over the samples.
class SoftmaxCrossEntropyOp {
 public:
  virtual ~SoftmaxCrossEntropyOp() = default;
  // `logits` (samples, classes), `labels` (samples) in [0, classes).
  // `dlogits`, the gradient times `scale`, is left out when it is nullptr; it
  // may be `logits`. Waits. REQUIRES: scale is a power of two.
  virtual absl::StatusOr<LossResult> Run(int64_t samples, const void* logits,
                                         const int32_t* labels, float scale,
                                         void* dlogits) = 0;
};

// Half the squared error, summed over outputs, mean over samples.
class MeanSquaredErrorOp {
 public:
  virtual ~MeanSquaredErrorOp() = default;
  // `outputs`, `targets` (samples, outputs); `doutputs` and `scale` as above.
  virtual absl::StatusOr<LossResult> Run(int64_t samples, const void* outputs,
                                         const float* targets, float scale,
                                         void* doutputs) = 0;
};

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_OPERATIONS_H_
