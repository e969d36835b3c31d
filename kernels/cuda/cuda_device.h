#ifndef SLUICE_KERNELS_CUDA_CUDA_DEVICE_H_
#define SLUICE_KERNELS_CUDA_CUDA_DEVICE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/cuda/precision.h"
#include "kernels/device.h"

namespace sluice::kernels {

struct CudaOptions {
  int index = 0;  // Of the GPU, as CUDA numbers those the process sees.
  Precision precision = Precision::kFp32;
  // Hears, once of each, what a library cannot do and what is done instead:
  // "conv2d 3x3 ... of 64 samples: in FP32: cuDNN has no algorithm ...".
  std::function<void(const std::string& what)> on_fallback =
      [](const std::string&) {};
};

// A GPU: cuBLASLt for products, cuDNN for convolution, own kernels for the
// rest. Asynchronous, in one stream. Results depend on the arguments and on
// what Description() says.
//
// CUDA is in a shared object beside the program (CudaObjectPath), loaded by the
// first call, so that programs start where there is none.
//
// kNotFound, beginning with "no CUDA device: ", where this build or machine has
// none, and why; kOutOfRange where it has none of this index, and which it has;
// kFailedPrecondition where there is one that cannot be used.
absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(
    const CudaOptions& options);

// The shared object that is part of this build: kernels/cuda/libsluice_cuda.so
// in the running program's folder or one above it. Empty where there is none.
std::string CudaObjectPath();

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_CUDA_CUDA_DEVICE_H_
