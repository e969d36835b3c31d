#include "worker/model/make_device.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/reference/reference_device.h"

namespace sluice {
namespace {

absl::StatusOr<std::unique_ptr<kernels::Device>> MakeCpu(
    const proto::Worker& worker) {
  kernels::CpuOptions options;
  if (worker.has_threads()) options.threads = worker.threads();
  if (worker.instruction_set() == proto::AVX512) {
    options.instruction_set = kernels::CpuOptions::InstructionSet::kAvx512;
  }
  return kernels::MakeCpuDevice(options);
}

// kNotFound where there is no GPU.
absl::StatusOr<std::unique_ptr<kernels::Device>> MakeCuda() {
  auto device = kernels::MakeCudaDevice({});
  if (device.ok()) return device;
  const bool absent = absl::IsNotFound(device.status());
  return absl::Status(
      device.status().code(),
      absl::StrCat("worker.device: ", device.status().message(),
                   absent ? "; there are CPU and REFERENCE" : ""));
}

}  // namespace

absl::StatusOr<std::unique_ptr<kernels::Device>> MakeDevice(
    const proto::Worker& worker) {
  switch (worker.device()) {
    case proto::REFERENCE:
      return kernels::MakeReferenceDevice();
    case proto::CUDA: {
      auto device = MakeCuda();
      if (!absl::IsNotFound(device.status())) return device;
      return absl::FailedPreconditionError(device.status().message());
    }
    case proto::AUTO: {
      auto device = MakeCuda();
      if (!absl::IsNotFound(device.status())) return device;
      return MakeCpu(worker);
    }
    default:
      return MakeCpu(worker);
  }
}

}  // namespace sluice
