#ifndef SLUICE_KERNELS_CUDA_CUDA_BACKEND_H_
#define SLUICE_KERNELS_CUDA_CUDA_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/backend.h"

namespace sluice::kernels::cuda {

// A GPU of this machine, by its number. Errors as MakeCudaDevice's, of what
// follows loading.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(int index);

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_CUDA_BACKEND_H_
