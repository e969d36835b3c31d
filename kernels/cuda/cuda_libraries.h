#ifndef SLUICE_KERNELS_CUDA_CUDA_LIBRARIES_H_
#define SLUICE_KERNELS_CUDA_CUDA_LIBRARIES_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/backend.h"

// The CUDA backend's parts: what wraps each library, and its errors as status.
namespace sluice::kernels::cuda {

// kInternal with `what` was called and what the library says.
absl::Status CudaStatus(cudaError_t error, absl::string_view what);
absl::Status CublasStatus(cublasStatus_t status, absl::string_view what);
absl::Status CudnnStatus(cudnnStatus_t status, absl::string_view what);

// As Backend::PrepareProduct; runs in `stream`. Both must outlive it.
absl::StatusOr<std::unique_ptr<Product>> PrepareCublasProduct(
    cublasLtHandle_t handle, cudaStream_t stream, const ProductShape& shape);

// As Backend::PrepareConvolution; runs in the handle's stream. `handle` must
// outlive it.
absl::StatusOr<std::unique_ptr<Convolution>> PrepareCudnnConvolution(
    cudnnHandle_t handle, ConvolutionKind kind, Precision precision,
    const Conv2dShape& shape, int64_t samples);

// Frees with a library's function. A failure while freeing cannot be helped,
// and has shown itself in the calls before.
template <auto kFree>
struct FreeWith {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_CUDA_LIBRARIES_H_
