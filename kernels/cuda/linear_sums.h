#ifndef SLUICE_KERNELS_CUDA_LINEAR_SUMS_H_
#define SLUICE_KERNELS_CUDA_LINEAR_SUMS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/op_context.h"

// What dense and conv2d have in common beside their products. Errors name the
// operation. Activations are (samples, channels, pixels).
namespace sluice::kernels::cuda {

// A library's prepared work, or nullptr where it cannot do the shape.
template <typename T>
absl::StatusOr<std::unique_ptr<T>> OrNone(
    absl::StatusOr<std::unique_ptr<T>> prepared) {
  if (absl::IsUnimplemented(prepared.status())) return std::unique_ptr<T>();
  return prepared;
}

// What follows a product: y += b, unless that is nullptr, and relu, in one pass
// over y. cuBLASLt's own relu does not say what it makes of NaN.
absl::Status AddBiasAndRelu(OpContext* context, const std::string& name,
                            int64_t samples, int64_t channels, int64_t pixels,
                            const float* b, bool relu, void* y);

// db from dy.
absl::Status SumBiasGradient(OpContext* context, const std::string& name,
                             int64_t samples, int64_t channels, int64_t pixels,
                             const void* dy, float* db);

// A batch of none has no gradient. `db` may be nullptr.
absl::Status ZeroGradients(OpContext* context, const std::string& name,
                           int64_t weights, int64_t biases, float* dw,
                           float* db);

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_LINEAR_SUMS_H_
