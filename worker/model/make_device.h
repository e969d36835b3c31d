#ifndef SLUICE_WORKER_MODEL_MAKE_DEVICE_H_
#define SLUICE_WORKER_MODEL_MAKE_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "proto/job.pb.h"

namespace sluice {

// The number of the GPU that is the workers' process `process`'s (ProcessOf):
// worker.gpus in turn, 0 where the job names none. Processes that are no
// workers take that of process 0.
int GpuOf(const proto::Worker& worker, int64_t process);

// The widest vector instructions that this machine has, where the job's
// processes compute with what they agree on when the run begins; else
// unspecified.
proto::InstructionSet OwnInstructionSet(const proto::Job& job);

// From now on this process computes with those of its own that are no wider
// than `run`; where either is unspecified, nothing changes. Errors as
// kernels::LimitInstructions's.
absl::Status ComputeWith(const proto::Job& job, proto::InstructionSet run);

// The device the job asks for, of that process; AUTO is CUDA where the machine
// has a GPU, else the CPU. kFailedPrecondition where this build or machine
// lacks it, saying why and what there is instead, or where a GPU that is there
// cannot be used; with AUTO also where the job's precision needs a GPU and
// there is none. `on_fallback` hears once of each shape that a GPU's libraries
// cannot compute, and what is done instead.
absl::StatusOr<std::unique_ptr<kernels::Device>> MakeDevice(
    const proto::Worker& worker, int64_t process,
    std::function<void(const std::string&)> on_fallback =
        [](const std::string&) {});

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_MAKE_DEVICE_H_
