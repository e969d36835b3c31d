#ifndef SLUICE_KERNELS_CPU_CPU_DEVICE_H_
#define SLUICE_KERNELS_CPU_CPU_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device.h"

namespace sluice::kernels {

struct CpuOptions {
  enum class InstructionSet { kAvx2, kAvx512 };
  int threads = 1;  // Compute threads; 1 or more.
  // No wider vector instructions than these, also where the machine has them:
  // the same ceiling gives the same bits on different machines.
  InstructionSet instruction_set = InstructionSet::kAvx2;
};

// The CPU: oneDNN for products, convolution and pooling, plain loops for the
// rest. Results depend on the arguments and on what Description() says, also
// across processes.
//
// The ceiling holds for the whole process: kFailedPrecondition when oneDNN
// already computes with another one. kInvalidArgument for `threads`.
absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(
    const CpuOptions& options);

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_CPU_CPU_DEVICE_H_
