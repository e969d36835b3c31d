#ifndef SLUICE_KERNELS_CUDA_DEVICE_ON_BACKEND_H_
#define SLUICE_KERNELS_CUDA_DEVICE_ON_BACKEND_H_

#include <memory>

#include "kernels/cuda/backend.h"
#include "kernels/device.h"

namespace sluice::kernels::cuda {

// The CUDA device without CUDA itself, which is `backend`.
std::unique_ptr<Device> MakeDeviceOn(std::unique_ptr<Backend> backend,
                                     Precision precision);

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_DEVICE_ON_BACKEND_H_
