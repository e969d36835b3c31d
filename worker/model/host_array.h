#ifndef SLUICE_WORKER_MODEL_HOST_ARRAY_H_
#define SLUICE_WORKER_MODEL_HOST_ARRAY_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "kernels/device.h"
#include "worker/task_progress.h"

namespace sluice {

// Lets operations of a device read an array of the host: in place where device
// memory is host memory, else through a buffer on the device: what ToDevice
// returned ends with the next call.
//
// Not thread-safe: call from the thread that computes.
class HostArray {
 public:
  // For arrays of up to `bytes`.
  static absl::StatusOr<HostArray> Create(kernels::Device* device,
                                          int64_t bytes) {
    if (device->uses_host_memory()) return HostArray(device, nullptr);
    SLUICE_ASSIGN_OR_RETURN(auto buffer, device->Allocate(bytes));
    return HostArray(device, std::move(buffer));
  }

  // `values` in device memory, to be read by operations. `progress`, unless it
  // is nullptr, hears of a copy.
  template <typename T>
  absl::StatusOr<const T*> ToDevice(absl::Span<const T> values,
                                    TaskProgress* progress = nullptr) {
    if (buffer_ == nullptr) return values.data();
    if (progress != nullptr) progress->BeginCopy(Transfer::kToDevice);
    SLUICE_RETURN_IF_ERROR(device_->CopyToDevice(values.data(), buffer_->data(),
                                                 values.size() * sizeof(T)));
    if (progress != nullptr) progress->EndCopy(Transfer::kToDevice);
    return static_cast<const T*>(buffer_->data());
  }

 private:
  HostArray(kernels::Device* device, std::unique_ptr<kernels::Buffer> buffer)
      : device_(device), buffer_(std::move(buffer)) {}

  kernels::Device* device_;
  std::unique_ptr<kernels::Buffer> buffer_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_HOST_ARRAY_H_
