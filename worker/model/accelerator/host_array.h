#ifndef SLUICE_WORKER_MODEL_ACCELERATOR_HOST_ARRAY_H_
#define SLUICE_WORKER_MODEL_ACCELERATOR_HOST_ARRAY_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "kernels/accelerator.h"
#include "worker/task_progress.h"

namespace sluice {

// Lets operations of a device read an array of the host: in place where device
// memory is host memory, else through a buffer on the device: what ToDevice
// returned ends with the next call.
//
// Not thread-safe: call from the compute thread.
class HostArray {
 public:
  // For arrays of up to `bytes`.
  static absl::StatusOr<HostArray> Create(kernels::Device* device,
                                          int64_t bytes) {
    kernels::Accelerator* const accelerator = device->accelerator();
    if (accelerator == nullptr) return HostArray(nullptr, nullptr);
    SLUICE_ASSIGN_OR_RETURN(auto buffer, accelerator->Allocate(bytes));
    return HostArray(accelerator, std::move(buffer));
  }

  // `values` in device memory, to be read by operations. `progress`, unless it
  // is nullptr, hears of a copy.
  template <typename T>
  absl::StatusOr<const T*> ToDevice(absl::Span<const T> values,
                                    TaskProgress* progress = nullptr) {
    if (buffer_ == nullptr) return values.data();
    if (progress != nullptr) progress->BeginCopy(Transfer::kToDevice);
    SLUICE_RETURN_IF_ERROR(accelerator_->CopyToDevice(
        values.data(), buffer_->data(), values.size() * sizeof(T)));
    if (progress != nullptr) progress->EndCopy(Transfer::kToDevice);
    return static_cast<const T*>(buffer_->data());
  }

 private:
  HostArray(kernels::Accelerator* accelerator,
            std::unique_ptr<kernels::Buffer> buffer)
      : accelerator_(accelerator), buffer_(std::move(buffer)) {}

  // Both nullptr where device memory is host memory.
  kernels::Accelerator* accelerator_;
  std::unique_ptr<kernels::Buffer> buffer_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_ACCELERATOR_HOST_ARRAY_H_
