#ifndef SLUICE_KERNELS_CUDA_LIBRARIES_GPU_NUMBER_H_
#define SLUICE_KERNELS_CUDA_LIBRARIES_GPU_NUMBER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace sluice::kernels::cuda {

// Whether there is a driver, and one for this build; versions as CUDA gives
// them: 13000 is 13.0, and a `driver` of 0 is none. kNotFound where there is
// none, kFailedPrecondition where it is too old, which names both.
absl::Status CheckDriver(int driver, int build);

// Whether GPU `number` is among those that this process sees: `names`, in
// CUDA's order. kNotFound where it sees none, kOutOfRange where it sees others,
// which are named.
absl::Status CheckGpuNumber(int number, absl::Span<const std::string> names);

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_LIBRARIES_GPU_NUMBER_H_
