#include "worker/model/make_device.h"

#include <utility>

#include "kernels/cpu/cpu_device.h"
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

}  // namespace

absl::StatusOr<std::unique_ptr<kernels::Device>> MakeDevice(
    const proto::Worker& worker) {
  switch (worker.device()) {
    case proto::REFERENCE:
      return kernels::MakeReferenceDevice();
    case proto::CUDA:
      return absl::FailedPreconditionError(
          "worker.device: this build has no CUDA device; there are CPU and "
          "REFERENCE");
    default:  // CPU, and AUTO where there is no CUDA device.
      return MakeCpu(worker);
  }
}

}  // namespace sluice
