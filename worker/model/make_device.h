#ifndef SLUICE_WORKER_MODEL_MAKE_DEVICE_H_
#define SLUICE_WORKER_MODEL_MAKE_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "proto/job.pb.h"

namespace sluice {

// The device the job asks for; AUTO is the best that is there.
// kFailedPrecondition where this build or machine lacks it, saying what there
// is instead.
absl::StatusOr<std::unique_ptr<kernels::Device>> MakeDevice(
    const proto::Worker& worker);

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_MAKE_DEVICE_H_
