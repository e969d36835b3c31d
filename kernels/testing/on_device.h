#ifndef SLUICE_KERNELS_TESTING_ON_DEVICE_H_
#define SLUICE_KERNELS_TESTING_ON_DEVICE_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/accelerator.h"
#include "kernels/device.h"

// Arrays in the memory of the devices that tests compute on.
namespace sluice::kernels {

// Copies between the host and any device's memory, which may be the host's. The
// second waits for what was computed.
inline absl::Status CopyToDevice(Device* device, const void* host, void* to,
                                 int64_t bytes) {
  if (Accelerator* const gpu = device->accelerator()) {
    return gpu->CopyToDevice(host, to, bytes);
  }
  if (bytes > 0) std::memcpy(to, host, bytes);  // Nothing may be nowhere.
  return absl::OkStatus();
}
inline absl::Status CopyToHost(Device* device, const void* from, void* host,
                               int64_t bytes) {
  if (Accelerator* const gpu = device->accelerator()) {
    return gpu->CopyToHost(from, host, bytes);
  }
  if (bytes > 0) std::memcpy(host, from, bytes);
  return absl::OkStatus();
}

// An array in the device's memory that begins `offset` elements after a
// multiple of 256 bytes.
//
// Not thread-safe: call from the thread of the test.
template <typename T>
class OnDevice {
 public:
  OnDevice(Device* device, const std::vector<T>& values, int64_t offset = 0)
      : device_(device), size_(static_cast<int64_t>(values.size())) {
    auto buffer = device->Allocate((size_ + offset) * sizeof(T));
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    buffer_ = *std::move(buffer);
    data_ = static_cast<T*>(buffer_->data()) + offset;
    Write(values);
  }
  // Of `size` NaN.
  static OnDevice Unwritten(Device* device, int64_t size, int64_t offset = 0) {
    return OnDevice(device, std::vector<T>(size, std::nanf("")), offset);
  }

  T* data() const { return data_; }
  // As many values as it has.
  void Write(const std::vector<T>& values) const {
    const auto copied =
        CopyToDevice(device_, values.data(), data_, size_ * sizeof(T));
    EXPECT_TRUE(copied.ok()) << copied;
  }
  // Waits for what was computed.
  std::vector<T> Read() const {
    std::vector<T> values(size_);
    const auto copied =
        CopyToHost(device_, data_, values.data(), size_ * sizeof(T));
    EXPECT_TRUE(copied.ok()) << copied;
    return values;
  }

 private:
  Device* device_;
  int64_t size_;
  std::unique_ptr<Buffer> buffer_;
  T* data_;
};

using Floats = OnDevice<float>;

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_TESTING_ON_DEVICE_H_
