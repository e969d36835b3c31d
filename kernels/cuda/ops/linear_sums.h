#ifndef SLUICE_KERNELS_CUDA_OPS_LINEAR_SUMS_H_
#define SLUICE_KERNELS_CUDA_OPS_LINEAR_SUMS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kernels/cuda/gpu_device.h"

// What dense and conv2d have in common beside their products. Errors name the
// operation. Activations are (samples, channels, pixels).
namespace sluice::kernels::cuda {

// What follows a product: y += b, unless that is nullptr, and relu, in one pass
// over y. cuBLASLt's own relu does not say what it makes of NaN.
absl::Status AddBiasAndRelu(GpuDevice* gpu, const std::string& name,
                            int64_t samples, int64_t channels, int64_t pixels,
                            const float* b, bool relu, void* y);

// db from dy.
absl::Status SumBiasGradient(GpuDevice* gpu, const std::string& name,
                             int64_t samples, int64_t channels, int64_t pixels,
                             const void* dy, float* db);

// A batch of none has no gradient. `db` may be nullptr.
absl::Status ZeroGradients(GpuDevice* gpu, const std::string& name,
                           int64_t weights, int64_t biases, float* dw,
                           float* db);

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_OPS_LINEAR_SUMS_H_
