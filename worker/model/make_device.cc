#include "worker/model/make_device.h"

#include <algorithm>
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
    options.instruction_set = kernels::InstructionSet::kAvx512;
  } else if (worker.instruction_set() == proto::WIDEST) {
    options.instruction_set.reset();
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
    const kernels::CudaOptions& options) {
  auto device = kernels::MakeCudaDevice(options);
  if (device.ok()) return device;
  const absl::string_view why = device.status().message();
  if (absl::IsNotFound(device.status())) {
    return absl::NotFoundError(
        absl::StrCat("worker.device: ", why, "; there are CPU and REFERENCE"));
  }
  const bool number = absl::IsOutOfRange(device.status());
  return absl::FailedPreconditionError(
      absl::StrCat(number ? "worker.gpus: " : "worker.device: ", why));
}

}  // namespace

proto::InstructionSet OwnInstructionSet(const proto::Job& job) {
  const proto::Worker& worker = job.worker();
  const bool agrees =
      !job.model().has_external() &&
      (worker.device() == proto::CPU || worker.device() == proto::AUTO) &&
      worker.instruction_set() == proto::WIDEST;
  if (!agrees) return proto::INSTRUCTION_SET_UNSPECIFIED;
  return kernels::WidestInstructionSet() == kernels::InstructionSet::kAvx512
             ? proto::AVX512
             : proto::AVX2;
}

absl::Status ComputeWith(const proto::Job& job, proto::InstructionSet run) {
  const proto::InstructionSet own = OwnInstructionSet(job);
  if (std::min(own, run) == proto::INSTRUCTION_SET_UNSPECIFIED) {
    return absl::OkStatus();
  }
  return kernels::LimitInstructions(std::min(own, run) == proto::AVX512
                                        ? kernels::InstructionSet::kAvx512
                                        : kernels::InstructionSet::kAvx2);
}

int GpuOf(const proto::Worker& worker, int64_t process) {
  if (worker.gpus().empty()) return 0;
  return worker.gpus(static_cast<int>(process % worker.gpus_size()));
}

absl::StatusOr<std::unique_ptr<kernels::Device>> MakeDevice(
    const proto::Worker& worker, int64_t process,
    std::function<void(const std::string&)> on_fallback) {
  const kernels::CudaOptions cuda = {.index = GpuOf(worker, process),
                                     .precision = PrecisionOf(worker),
                                     .on_fallback = std::move(on_fallback)};
  switch (worker.device()) {
    case proto::REFERENCE:
      return kernels::MakeReferenceDevice();
    case proto::CUDA: {
      auto device = MakeCuda(cuda);
      if (!absl::IsNotFound(device.status())) return device;
      return absl::FailedPreconditionError(device.status().message());
    }
    case proto::AUTO: {
      auto device = MakeCuda(cuda);
      if (!absl::IsNotFound(device.status())) return device;
      if (cuda.precision == kernels::Precision::kFp32) return MakeCpu(worker);
      return absl::FailedPreconditionError(
          absl::StrCat("worker.precision: ", kernels::NameOf(cuda.precision),
                       " needs a GPU; ", device.status().message()));
    }
    default:
      return MakeCpu(worker);
  }
}

}  // namespace sluice
