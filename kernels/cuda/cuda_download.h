#ifndef SLUICE_KERNELS_CUDA_CUDA_DOWNLOAD_H_
#define SLUICE_KERNELS_CUDA_CUDA_DOWNLOAD_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device.h"

namespace sluice::kernels::cuda {

// A download through pinned memory of its own, in a stream of its own that
// waits for `compute`, so that the GPU's copy engine works beside its kernels.
// `compute` must outlive it. kResourceExhausted: no such memory.
absl::StatusOr<std::unique_ptr<Download>> MakeCudaDownload(cudaStream_t compute,
                                                           int64_t bytes);

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_CUDA_DOWNLOAD_H_
