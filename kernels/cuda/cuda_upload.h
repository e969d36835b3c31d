#ifndef SLUICE_KERNELS_CUDA_CUDA_UPLOAD_H_
#define SLUICE_KERNELS_CUDA_CUDA_UPLOAD_H_

#include <cuda_runtime_api.h>

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device.h"

namespace sluice::kernels::cuda {

// An upload through pinned pieces of its own (staging.h), in a stream of its
// own that `compute` waits for, so that the GPU's copy engine works beside its
// kernels. `compute` must outlive it.
absl::StatusOr<std::unique_ptr<Upload>> MakeCudaUpload(cudaStream_t compute);

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_CUDA_UPLOAD_H_
