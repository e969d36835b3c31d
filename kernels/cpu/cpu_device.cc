#include "kernels/cpu/cpu_device.h"

#include <gnu/libc-version.h>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/threads.h"

namespace sluice::kernels {
namespace {

const char* IsaName(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41:
      return "sse4.1";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx512_core:
      return "avx512";
    default:
      return "other";
  }
}

// What oneDNN calls avx512_core.
bool MachineHasAvx512() {
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
}

class CpuDevice : public Device {
 public:
  explicit CpuDevice(int threads) { context_.threads = threads; }

  std::string Description() const override {
    const dnnl_version_t* v = dnnl::version();
    // glibc has the exp and log of the losses.
    return absl::StrCat("cpu (oneDNN ", v->major, ".", v->minor, ".", v->patch,
                        ", glibc ", gnu_get_libc_version(), ", ",
                        IsaName(dnnl::get_effective_cpu_isa()), ", ",
                        context_.threads,
                        context_.threads == 1 ? " thread)" : " threads)");
  }
  void EnterThread() override { EnterComputeThreads(context_.threads); }

  absl::StatusOr<std::unique_ptr<VectorOp>> PrepareVector(
      absl::Span<const ParameterRange> ranges) override {
    return MakeCpuVectorOp(&context_, ranges);
  }
  absl::StatusOr<AnyOp> PrepareAny(const OpSpec& spec,
                                   int64_t max_samples) override {
    EnterThread();
    return PrepareEach(spec, [&](const auto& shape) {
      return MakeCpuOp(&context_, shape, max_samples);
    });
  }

 private:
  OneDnnContext context_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(
    const CpuOptions& options) {
  if (options.threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads must be 1 or more, is ", options.threads));
  }
  const bool wide =
      options.instruction_set == CpuOptions::InstructionSet::kAvx512;
  const dnnl::cpu_isa ceiling =
      wide ? dnnl::cpu_isa::avx512_core : dnnl::cpu_isa::avx2;
  // oneDNN takes a ceiling only before it first looked at the machine. A
  // second device with the same one is welcome.
  if (dnnl::set_max_cpu_isa(ceiling) != dnnl::status::success) {
    const dnnl::cpu_isa effective = dnnl::get_effective_cpu_isa();
    const dnnl::cpu_isa expected = wide && MachineHasAvx512()
                                       ? dnnl::cpu_isa::avx512_core
                                       : dnnl::cpu_isa::avx2;
    if (effective != expected) {
      return absl::FailedPreconditionError(
          absl::StrCat("this process already computes with ",
                       IsaName(effective), ", so a device with the ceiling ",
                       IsaName(ceiling), " cannot be made"));
    }
  }
  return std::make_unique<CpuDevice>(options.threads);
}

}  // namespace sluice::kernels
