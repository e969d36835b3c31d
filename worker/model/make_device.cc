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

kernels::Precision PrecisionOf(const proto::Worker& worker) {
  switch (worker.precision()) {
    case proto::Worker::TF32:
      return kernels::Precision::kTf32;
    case proto::Worker::BF16:
      return kernels::Precision::kBf16;
    case proto::Worker::FP16:
      return kernels::Precision::kFp16;
    default:
      return kernels::Precision::kFp32;
  }
}

// kNotFound where there is no GPU.
absl::StatusOr<std::unique_ptr<kernels::Device>> MakeCuda(
    kernels::Precision precision) {
  auto device = kernels::MakeCudaDevice({.precision = precision});
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
  const kernels::Precision precision = PrecisionOf(worker);
  switch (worker.device()) {
    case proto::REFERENCE:
      return kernels::MakeReferenceDevice();
    case proto::CUDA: {
      auto device = MakeCuda(precision);
      if (!absl::IsNotFound(device.status())) return device;
      return absl::FailedPreconditionError(device.status().message());
    }
    case proto::AUTO: {
      auto device = MakeCuda(precision);
      if (!absl::IsNotFound(device.status())) return device;
      if (precision == kernels::Precision::kFp32) return MakeCpu(worker);
      return absl::FailedPreconditionError(
          absl::StrCat("worker.precision: ", kernels::NameOf(precision),
                       " needs a GPU; ", device.status().message()));
    }
    default:
      return MakeCpu(worker);
  }
}

}  // namespace sluice
