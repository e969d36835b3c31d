#include "kernels/host_memory.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <utility>

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

class HostUpload : public Upload {
 public:
  absl::Status Begin() override { return absl::OkStatus(); }
  absl::Status Send(const void* host, void* device, int64_t bytes) override {
    if (bytes > 0) std::memcpy(device, host, bytes);
    return absl::OkStatus();
  }
};

// Nothing is under way: a part is read when it is taken.
class HostDownload : public Download {
 public:
  absl::Status Begin(const void* device, int64_t bytes) override {
    parts_.emplace_back(device, bytes);
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Take(void* host, bool) override {
    const auto [device, bytes] = parts_.front();
    parts_.pop_front();
    if (bytes > 0) std::memcpy(host, device, bytes);
    return true;
  }
  absl::Status Drop() override {
    parts_.clear();
    return absl::OkStatus();
  }

 private:
  std::deque<std::pair<const void*, int64_t>> parts_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Upload>> HostMemoryDevice::PrepareUpload() {
  return std::make_unique<HostUpload>();
}

absl::StatusOr<std::unique_ptr<Download>> HostMemoryDevice::PrepareDownload(
    int64_t) {
  return std::make_unique<HostDownload>();
}

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
