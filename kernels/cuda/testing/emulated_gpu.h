#ifndef SLUICE_KERNELS_CUDA_TESTING_EMULATED_GPU_H_
#define SLUICE_KERNELS_CUDA_TESTING_EMULATED_GPU_H_

#include <functional>
#include <memory>
#include <string>

#include "kernels/cuda/gpu_device.h"

namespace sluice::kernels::cuda {

// A GPU on the host, for tests: the own kernels run under emulation.h, the
// libraries are loops that take their arguments as cuBLAS and cuDNN would, and
// refuse what is not aligned. Fresh memory holds NaN.
//
// With `libraries` false they refuse every shape that they may refuse: fused
// biases, convolutions, and in 16 bits columns that are not aligned to 16
// bytes.
std::unique_ptr<Accelerator> MakeEmulatedGpu(
    bool libraries, Precision precision,
    std::function<void(const std::string&)> on_fallback =
        [](const std::string&) {});

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_TESTING_EMULATED_GPU_H_
