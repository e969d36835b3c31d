#ifndef SLUICE_WORKER_MODEL_SCRATCH_VECTOR_H_
#define SLUICE_WORKER_MODEL_SCRATCH_VECTOR_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/status_macros.h"
#include "kernels/device.h"

namespace sluice {

// Device memory for a vector that not every job needs.
//
// Not thread-safe: call from the thread that computes.
class ScratchVector {
 public:
  // Of `floats`. `device` must outlive it.
  ScratchVector(kernels::Device* device, int64_t floats)
      : device_(device), floats_(floats) {}

  // The same memory in each call, with anything in it; the first one allocates
  // it.
  absl::StatusOr<float*> Get() {
    if (buffer_ == nullptr) {
      SLUICE_ASSIGN_OR_RETURN(
          buffer_,
          device_->Allocate(floats_ * static_cast<int64_t>(sizeof(float))));
    }
    return buffer_->floats();
  }

 private:
  kernels::Device* const device_;
  const int64_t floats_;
  std::unique_ptr<kernels::Buffer> buffer_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_SCRATCH_VECTOR_H_
