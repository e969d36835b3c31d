#ifndef SLUICE_KERNELS_CPU_CPU_DEVICE_H_
#define SLUICE_KERNELS_CPU_CPU_DEVICE_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device.h"

namespace sluice::kernels {

// A ceiling: no wider vector instructions than these, also where the machine
// has them. The same ceiling gives the same bits on different machines.
enum class InstructionSet { kAvx2, kAvx512 };

// The widest that this machine has and, as for oneDNN's other users, the
// environment's ONEDNN_MAX_CPU_ISA allows.
InstructionSet WidestInstructionSet();

// Sets the ceiling of all CPU devices of this process. Repeated, it must be the
// same. kFailedPrecondition: oneDNN already computes with another one.
absl::Status LimitInstructions(InstructionSet ceiling);

struct CpuOptions {
  int threads = 1;  // Compute threads; 1 or more.
  // Nullopt: the process's, that of LimitInstructions; where nobody calls that
  // before the first operation is prepared, the widest.
  std::optional<InstructionSet> instruction_set = InstructionSet::kAvx2;
};

// The CPU: oneDNN for products, convolution, tanh, sigmoid and the softmax of
// attention, plain loops for the rest. Results depend on the arguments and on
// what Description() says, also across processes.
//
// Errors as LimitInstructions's; kInvalidArgument for `threads`;
// kFailedPrecondition: the machine lacks AVX2 or FMA, or OpenMP starts fewer
// threads.
absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(
    const CpuOptions& options);

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_CPU_CPU_DEVICE_H_
