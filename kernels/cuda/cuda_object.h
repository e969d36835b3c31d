#ifndef SLUICE_KERNELS_CUDA_CUDA_OBJECT_H_
#define SLUICE_KERNELS_CUDA_CUDA_OBJECT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_device.h"

namespace sluice::kernels {

// What the shared object is asked for, by this name. It is built with the
// program that loads it, since they share classes.
inline constexpr char kMakeCudaDeviceSymbol[] = "SluiceMakeCudaDevice";
using MakeCudaDeviceFunction =
    void(const CudaOptions& options,
         absl::StatusOr<std::unique_ptr<Device>>* result);

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_CUDA_CUDA_OBJECT_H_
