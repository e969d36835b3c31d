#include "kernels/host_memory.h"

#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace sluice::kernels {
namespace {

class HostBuffer : public Buffer {
 public:
  explicit HostBuffer(void* data) : data_(data) {}
  ~HostBuffer() override { std::free(data_); }
  void* data() override { return data_; }

 private:
  void* const data_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Buffer>> HostMemoryDevice::Allocate(
    int64_t bytes) {
  // aligned_alloc wants a multiple of the alignment.
  const int64_t rounded = (bytes + 64) / 64 * 64;
  void* data = std::aligned_alloc(64, rounded);
  if (data == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a buffer of ", bytes, " bytes"));
  }
  return std::make_unique<HostBuffer>(data);
}

absl::Status HostMemoryDevice::CopyToDevice(const void* host, void* device,
                                            int64_t bytes) {
  if (bytes > 0) std::memcpy(device, host, bytes);  // Nothing may be nowhere.
  return absl::OkStatus();
}

absl::Status HostMemoryDevice::CopyToHost(const void* device, void* host,
                                          int64_t bytes) {
  if (bytes > 0) std::memcpy(host, device, bytes);
  return absl::OkStatus();
}

}  // namespace sluice::kernels
