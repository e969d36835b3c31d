#include "kernels/cpu/cpu_device.h"

#include <gnu/libc-version.h>

#include <atomic>
#include <cstdlib>

#include "absl/strings/match.h"
#include "common/status_macros.h"
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

// Whether LimitInstructions has been called: only then may oneDNN be asked what
// it computes with, since it takes no ceiling any more when it has answered.
std::atomic<bool> limited = false;

class CpuDevice : public Device {
 public:
  explicit CpuDevice(int threads) { context_.threads = threads; }

  std::string Description() const override {
    const dnnl_version_t* v = dnnl::version();
    // glibc has the exp and log of the losses.
    return absl::StrCat("cpu (oneDNN ", v->major, ".", v->minor, ".", v->patch,
                        ", glibc ", gnu_get_libc_version(), ", ",
                        limited ? IsaName(dnnl::get_effective_cpu_isa())
                                : "the run's instructions",
                        ", ", context_.threads,
                        context_.threads == 1 ? " thread)" : " threads)");
  }
  void EnterThread() override { EnterComputeThreads(context_.threads); }

  absl::StatusOr<std::unique_ptr<VectorOp>> PrepareVector(
      absl::Span<const ParameterRange> ranges) override {
    SLUICE_RETURN_IF_ERROR(Limit());
    return MakeCpuVectorOp(&context_, ranges);
  }
  absl::StatusOr<AnyOp> PrepareAny(const OpSpec& spec,
                                   int64_t max_samples) override {
    SLUICE_RETURN_IF_ERROR(Limit());
    EnterThread();
    return PrepareEach(spec, [&](const auto& shape) {
      return MakeCpuOp(&context_, shape, max_samples);
    });
  }

 private:
  // Nobody has chosen for the process.
  static absl::Status Limit() {
    return limited ? absl::OkStatus()
                   : LimitInstructions(WidestInstructionSet());
  }

  OneDnnContext context_;
};

}  // namespace

InstructionSet WidestInstructionSet() {
  const char* const limit = std::getenv("ONEDNN_MAX_CPU_ISA");
  const absl::string_view ceiling = limit == nullptr ? "ALL" : limit;
  const bool narrow = absl::StartsWithIgnoreCase(ceiling, "SSE41") ||
                      absl::EqualsIgnoreCase(ceiling, "AVX") ||
                      absl::StartsWithIgnoreCase(ceiling, "AVX2");
  return MachineHasAvx512() && !narrow ? InstructionSet::kAvx512
                                       : InstructionSet::kAvx2;
}

absl::Status LimitInstructions(InstructionSet ceiling) {
  const bool wide = ceiling == InstructionSet::kAvx512;
  const dnnl::cpu_isa isa =
      wide ? dnnl::cpu_isa::avx512_core : dnnl::cpu_isa::avx2;
  // oneDNN takes a ceiling only before it first looked at the machine. The same
  // one again is welcome.
  if (dnnl::set_max_cpu_isa(isa) != dnnl::status::success) {
    const dnnl::cpu_isa effective = dnnl::get_effective_cpu_isa();
    const dnnl::cpu_isa expected = wide && MachineHasAvx512()
                                       ? dnnl::cpu_isa::avx512_core
                                       : dnnl::cpu_isa::avx2;
    if (effective != expected) {
      return absl::FailedPreconditionError(absl::StrCat(
          "this process already computes with ", IsaName(effective),
          ", so a device with the ceiling ", IsaName(isa), " cannot be made"));
    }
  }
  limited = true;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(
    const CpuOptions& options) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    return absl::FailedPreconditionError(
        "this machine's processor lacks AVX2 or FMA, which the CPU device "
        "computes with");
  }
  if (options.threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads must be 1 or more, is ", options.threads));
  }
  // oneDNN's bits depend on how many there are, and Description() says it.
  const int started = ThreadsThatStart(options.threads);
  if (started != options.threads) {
    return absl::FailedPreconditionError(absl::StrCat(
        "threads is ", options.threads, ", but OpenMP starts ", started,
        "; is OMP_THREAD_LIMIT or OMP_MAX_ACTIVE_LEVELS set?"));
  }
  if (options.instruction_set.has_value()) {
    SLUICE_RETURN_IF_ERROR(LimitInstructions(*options.instruction_set));
  }
  return std::make_unique<CpuDevice>(options.threads);
}

}  // namespace sluice::kernels
