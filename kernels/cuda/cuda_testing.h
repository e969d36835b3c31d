#ifndef SLUICE_KERNELS_CUDA_CUDA_TESTING_H_
#define SLUICE_KERNELS_CUDA_CUDA_TESTING_H_

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/device_on_backend.h"
#include "kernels/cuda/emulated_backend.h"
#include "kernels/cuda/launch_geometry.h"
#include "kernels/reference/reference_device.h"
#include "kernels/testing/comparison.h"
#include "kernels/testing/op_cases.h"

// What the tests of the CUDA device share. Each runs on the machine's GPU,
// where there is one, and on every machine under the emulation, with libraries
// that can everything and with some that refuse what they may.
namespace sluice::kernels {

enum class Where { kGpu, kEmulated, kEmulatedAlone };

inline std::string NameOf(const testing::TestParamInfo<Where>& info) {
  switch (info.param) {
    case Where::kGpu:
      return "Gpu";
    case Where::kEmulated:
      return "Emulated";
    case Where::kEmulatedAlone:
      return "EmulatedAlone";
  }
  return "";
}

class CudaTest : public testing::TestWithParam<Where> {
 protected:
  void SetUp() override {
    reference_ = MakeReferenceDevice();
    if (GetParam() == Where::kGpu) {
      auto made = MakeCudaDevice({});
      if (absl::IsNotFound(made.status())) {
        GTEST_SKIP() << "SKIPPED: " << made.status().message();
      }
      ASSERT_TRUE(made.ok()) << made.status();
      device_ = *std::move(made);
    } else {
      device_ = cuda::MakeDeviceOn(
          cuda::MakeEmulatedBackend(GetParam() == Where::kEmulated));
    }
    device_->EnterThread();
  }

  // Whether the case takes too long where the GPU is emulated.
  bool TooLarge(int64_t floats) const {
    return GetParam() != Where::kGpu && floats > 20000;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> reference_;
};

#define SLUICE_CUDA_TEST_SUITE(Suite)                                        \
  INSTANTIATE_TEST_SUITE_P(                                                  \
      Devices, Suite,                                                        \
      testing::Values(Where::kGpu, Where::kEmulated, Where::kEmulatedAlone), \
      NameOf)

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
    const auto copied =
        device->CopyToDevice(values.data(), data_, size_ * sizeof(T));
    EXPECT_TRUE(copied.ok()) << copied;
  }
  // Of `size` NaN.
  static OnDevice Unwritten(Device* device, int64_t size, int64_t offset = 0) {
    return OnDevice(device, std::vector<T>(size, std::nanf("")), offset);
  }

  T* data() const { return data_; }
  // Waits for what was computed.
  std::vector<T> Read() const {
    std::vector<T> values(size_);
    const auto copied =
        device_->CopyToHost(data_, values.data(), size_ * sizeof(T));
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

#endif  // SLUICE_KERNELS_CUDA_CUDA_TESTING_H_
