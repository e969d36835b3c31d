// What the shared object is: the device on a GPU.
#include "kernels/cuda/cuda_object.h"

#include <utility>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device_on_backend.h"

extern "C" void SluiceMakeCudaDevice(
    const sluice::kernels::CudaOptions& options,
    absl::StatusOr<std::unique_ptr<sluice::kernels::Device>>* result) {
  auto backend = sluice::kernels::cuda::MakeCudaBackend(options.index);
  if (backend.ok()) {
    *result = sluice::kernels::cuda::MakeDeviceOn(*std::move(backend),
                                                  options.precision);
  } else {
    *result = backend.status();
  }
}
