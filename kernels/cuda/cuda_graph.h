#ifndef SLUICE_KERNELS_CUDA_CUDA_GRAPH_H_
#define SLUICE_KERNELS_CUDA_CUDA_GRAPH_H_

#include <cuda_runtime_api.h>

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device.h"

namespace sluice::kernels::cuda {

// Backend::Record of `stream`, as a CUDA graph, which is launched into the same
// stream. `stream` must outlive it.
absl::StatusOr<std::unique_ptr<Recording>> RecordGraph(
    cudaStream_t stream, absl::FunctionRef<absl::Status()> calls);

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_CUDA_GRAPH_H_
