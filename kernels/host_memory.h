#ifndef SLUICE_KERNELS_HOST_MEMORY_H_
#define SLUICE_KERNELS_HOST_MEMORY_H_

#include "kernels/device.h"

namespace sluice::kernels {

// The memory half of a device that computes on the host: buffers are aligned
// host memory, copies are memcpy, and every call is done when it returns.
//
// Thread-compatible.
class HostMemoryDevice : public Device {
 public:
  bool uses_host_memory() const override { return true; }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes) override;
  absl::Status CopyToDevice(const void* host, void* device,
                            int64_t bytes) override;
  absl::Status CopyToHost(const void* device, void* host,
                          int64_t bytes) override;
  absl::StatusOr<std::unique_ptr<Upload>> PrepareUpload() override;
  absl::StatusOr<std::unique_ptr<Download>> PrepareDownload(
      int64_t bytes) override;
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::Status Pace(int ahead) override { return absl::OkStatus(); }
};

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_HOST_MEMORY_H_
