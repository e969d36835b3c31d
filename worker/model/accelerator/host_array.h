#ifndef SLUICE_WORKER_MODEL_ACCELERATOR_HOST_ARRAY_H_
#define SLUICE_WORKER_MODEL_ACCELERATOR_HOST_ARRAY_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "kernels/accelerator.h"
#include "worker/task/task_progress.h"

namespace sluice {

// Lets operations of a device read an array of the host: in place where device
// memory is host memory, else through a buffer on the device: what ToDevice
// returned ends with the next call.
//
//   Create        in the queue of the operations: the next copy waits for what
//                 still computes with the last one
//   CreateBeside  beside what computes, into two buffers by turns: the next
//                 mini-batch's inputs come while this one's gradient is
//                 computed
//
// Not thread-safe: call from the compute thread.
class HostArray {
 public:
  // For arrays of up to `bytes`.
  static absl::StatusOr<HostArray> Create(kernels::Device* device,
                                          int64_t bytes) {
    HostArray array;
    array.accelerator_ = device->accelerator();
    if (array.accelerator_ == nullptr) return array;
    SLUICE_ASSIGN_OR_RETURN(array.buffer_, array.accelerator_->Allocate(bytes));
    return array;
  }
  static absl::StatusOr<HostArray> CreateBeside(kernels::Device* device,
                                                int64_t bytes) {
    SLUICE_ASSIGN_OR_RETURN(HostArray array, Create(device, bytes));
    if (array.accelerator_ == nullptr) return array;
    SLUICE_ASSIGN_OR_RETURN(array.other_, array.accelerator_->Allocate(bytes));
    SLUICE_ASSIGN_OR_RETURN(array.upload_, array.accelerator_->PrepareUpload());
    SLUICE_RETURN_IF_ERROR(array.upload_->Begin());
    return array;
  }

  // `values` in device memory, to be read by operations. `progress`, unless it
  // is nullptr, hears of a copy.
  template <typename T>
  absl::StatusOr<const T*> ToDevice(absl::Span<const T> values,
                                    TaskProgress* progress = nullptr) {
    if (accelerator_ == nullptr) return values.data();
    if (progress != nullptr) progress->BeginCopy(Transfer::kToDevice);
    SLUICE_RETURN_IF_ERROR(Copy(values.data(), values.size() * sizeof(T)));
    if (progress != nullptr) progress->EndCopy(Transfer::kToDevice);
    return static_cast<const T*>(buffer_->data());
  }

 private:
  HostArray() = default;

  absl::Status Copy(const void* host, int64_t bytes) {
    if (upload_ == nullptr) {
      return accelerator_->CopyToDevice(host, buffer_->data(), bytes);
    }
    std::swap(buffer_, other_);
    SLUICE_RETURN_IF_ERROR(upload_->Send(host, buffer_->data(), bytes));
    // What has been called so far is done with `other_` before the next copy.
    return upload_->Begin();
  }

  kernels::Accelerator* accelerator_ = nullptr;  // Else host memory it is.
  std::unique_ptr<kernels::Buffer> buffer_;      // What was returned last.
  // Of CreateBeside.
  std::unique_ptr<kernels::Buffer> other_;
  std::unique_ptr<kernels::Upload> upload_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_ACCELERATOR_HOST_ARRAY_H_
