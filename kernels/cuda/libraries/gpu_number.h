#ifndef SLUICE_KERNELS_CUDA_LIBRARIES_GPU_NUMBER_H_
#define SLUICE_KERNELS_CUDA_LIBRARIES_GPU_NUMBER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace sluice::kernels::cuda {

// Whether GPU `number` is among those that this process sees: `names`, in
// CUDA's order. kNotFound where it sees none, kOutOfRange where it sees others,
// which are named.
absl::Status CheckGpuNumber(int number, absl::Span<const std::string> names);

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_LIBRARIES_GPU_NUMBER_H_
