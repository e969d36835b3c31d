#ifndef SLUICE_KERNELS_REFERENCE_VECTOR_OP_H_
#define SLUICE_KERNELS_REFERENCE_VECTOR_OP_H_

#include <cmath>
#include <cstdint>

#include "kernels/host_vector_op.h"

namespace sluice::kernels::reference {

class ReferenceVectorOp : public HostVectorOp {
 public:
  using HostVectorOp::HostVectorOp;

 private:
  void ScaleRange(int64_t n, float a, const float* x, float* y) override {
    for (int64_t i = 0; i < n; ++i) y[i] = a * x[i];
  }
  void AddRange(int64_t n, float a, const float* x, float* y) override {
    for (int64_t i = 0; i < n; ++i) y[i] = std::fma(a, x[i], y[i]);
  }
  double SquaresOfRange(int64_t n, const float* x) override {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
    return sum;
  }
};

}  // namespace sluice::kernels::reference

#endif  // SLUICE_KERNELS_REFERENCE_VECTOR_OP_H_
