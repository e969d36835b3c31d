#ifndef SLUICE_WORKER_PIPELINE_DEVICE_NEIGHBOUR_H_
#define SLUICE_WORKER_PIPELINE_DEVICE_NEIGHBOUR_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "kernels/accelerator.h"
#include "worker/pipeline/neighbour.h"
#include "worker/task/cancel_token.h"

namespace sluice {

// A neighbour that is sent, and sends, arrays of a device: as they lie where
// device memory is host memory, else by a copy in the host's, which is as large
// as the largest of them.
//
// Not thread-safe: call from the compute thread.
class DeviceNeighbour {
 public:
  // Both must outlive it. A nullptr is no neighbour, and not to be called.
  DeviceNeighbour(Neighbour* neighbour, kernels::Device* device)
      : neighbour_(neighbour), accelerator_(device->accelerator()) {}

  bool there() const { return neighbour_ != nullptr; }

  // As Neighbour's, of `bytes` at `array`. Errors also as the copies'.
  absl::Status Send(int64_t pass, const void* array, int64_t bytes) {
    const auto* from = static_cast<const uint8_t*>(array);
    if (accelerator_ != nullptr) {
      copy_.resize(bytes);
      SLUICE_RETURN_IF_ERROR(
          accelerator_->CopyToHost(array, copy_.data(), bytes));
      from = copy_.data();
    }
    neighbour_->Send(pass, {from, static_cast<size_t>(bytes)});
    return absl::OkStatus();
  }
  absl::Status Receive(int64_t pass, void* array, int64_t bytes,
                       const CancelToken& cancel) {
    const auto size = static_cast<size_t>(bytes);
    if (accelerator_ == nullptr) {
      return neighbour_->Receive(pass, {static_cast<uint8_t*>(array), size},
                                 cancel);
    }
    copy_.resize(size);
    SLUICE_RETURN_IF_ERROR(
        neighbour_->Receive(pass, absl::MakeSpan(copy_), cancel));
    return accelerator_->CopyToDevice(copy_.data(), array, bytes);
  }
  // Of a number of the host's.
  void SendNumber(int64_t pass, double number) {
    neighbour_->Send(
        pass, {reinterpret_cast<const uint8_t*>(&number), sizeof(number)});
  }
  absl::Status ReceiveNumber(int64_t pass, double* number,
                             const CancelToken& cancel) {
    return neighbour_->Receive(
        pass, {reinterpret_cast<uint8_t*>(number), sizeof(*number)}, cancel);
  }

 private:
  Neighbour* const neighbour_;
  kernels::Accelerator* const accelerator_;  // nullptr: it is the host's.
  std::vector<uint8_t> copy_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_PIPELINE_DEVICE_NEIGHBOUR_H_
