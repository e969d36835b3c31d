#ifndef SLUICE_KERNELS_VECTOR_OP_H_
#define SLUICE_KERNELS_VECTOR_OP_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/parameter_range.h"

namespace sluice::kernels {

// Arithmetic on vectors of the model's size, weights or gradients, in the
// ranges that it was prepared for; Scale and Add only in what of these is
// `within`. Nothing else is read or written.
//
// Memory    device memory, aligned as floats.
// Aliasing  in Scale `y` may be `x`; else they do not overlap.
// Numerics  Scale and Add: fp32, and a float's bits depend on its inputs alone,
//           the same on every device.
// Threads, errors  as in operations.h.
class VectorOp {
 public:
  virtual ~VectorOp() = default;
  // y = a x, one product each.
  virtual absl::Status Scale(ParameterRange within, float a, const float* x,
                             float* y) = 0;
  // y = a x + y, one fma each: with -a the rate, a step of SGD.
  virtual absl::Status Add(ParameterRange within, float a, const float* x,
                           float* y) = 0;
  // The sum of the squares in all ranges, in double, in an order that depends
  // on the ranges alone. It is finite where every float is, and only there.
  // Waits.
  virtual absl::StatusOr<double> SumOfSquares(const float* x) = 0;
};

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_VECTOR_OP_H_
