#ifndef SLUICE_KERNELS_CUDA_OPS_GPU_OP_H_
#define SLUICE_KERNELS_CUDA_OPS_GPU_OP_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/gpu_device.h"
#include "kernels/cuda/kernels/launch_geometry.h"

namespace sluice::kernels::cuda {

// What an operation has beside its kernels. Errors begin with its name.
//
// Not thread-safe: call from the compute thread.
template <typename Shape>
class GpuOp : public Shape::Op {
 public:
  // `gpu` must outlive it.
  GpuOp(GpuDevice* gpu, std::string name, const Shape& shape)
      : gpu_(*gpu), name_(std::move(name)), shape_(shape) {}

 protected:
  Stream stream() const { return gpu_.stream(); }
  Precision precision() const { return gpu_.precision(); }
  absl::Status Launched(int error) const { return gpu_.Launched(name_, error); }
  // As GpuDevice::Scratch.
  absl::StatusOr<char*> Scratch(int64_t bytes) const {
    auto memory = gpu_.Scratch(bytes);
    if (!memory.ok()) return Named(name_, memory.status());
    return memory;
  }
  absl::Status Zero(float* to, int64_t floats) const {
    return Named(name_, gpu_.Zero(to, floats * sizeof(float)));
  }

  GpuDevice& gpu_;
  const std::string name_;
  const Shape shape_;
};

// kInvalidArgument, naming the operation, where `max_samples` of `size` floats
// are more than an array may have.
inline absl::Status CheckSize(const std::string& name, int64_t max_samples,
                              int64_t size) {
  if (size <= kLargestArray / max_samples) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", max_samples, " samples of ", size,
                   " floats are more than the CUDA device's ", kLargestArray,
                   " of an array; take a smaller micro-batch"));
}

// An operation T, where its arrays of each of these `sizes` fit (CheckSize).
template <typename T, typename Shape>
absl::StatusOr<std::unique_ptr<T>> MakeSized(
    GpuDevice* gpu, std::string name, const Shape& shape, int64_t max_samples,
    std::initializer_list<int64_t> sizes) {
  for (const int64_t size : sizes) {
    SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, size));
  }
  return std::make_unique<T>(gpu, std::move(name), shape);
}

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_OPS_GPU_OP_H_
