#ifndef SLUICE_WORKER_MODEL_SEPARATE_MEMORY_DEVICE_H_
#define SLUICE_WORKER_MODEL_SEPARATE_MEMORY_DEVICE_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/device.h"
#include "kernels/reference/reference_device.h"

namespace sluice {

// A device, the reference at first, on arrays that the host must not touch
// itself: memory may be the host's, but arguments of dense products are
// expected in buffers.
//
// Not thread-safe: call from the thread of the test.
class SeparateMemoryDevice : public kernels::Device {
 public:
  SeparateMemoryDevice()
      : SeparateMemoryDevice(kernels::MakeReferenceDevice()) {}
  explicit SeparateMemoryDevice(std::unique_ptr<kernels::Device> device)
      : device_(std::move(device)) {}

  bool InBuffers(const void* p) const {
    const auto* byte = static_cast<const char*>(p);
    for (const auto& [begin, bytes] : buffers_) {
      if (byte >= begin && byte < begin + bytes) return true;
    }
    return false;
  }

  std::string Description() const override { return "separate"; }
  void EnterThread() override { device_->EnterThread(); }
  int64_t activation_bytes() const override {
    return device_->activation_bytes();
  }
  bool uses_host_memory() const override { return false; }
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> Allocate(
      int64_t bytes) override {
    auto buffer = device_->Allocate(bytes);
    buffers_.emplace_back(static_cast<char*>((*buffer)->data()), bytes);
    return buffer;
  }
  absl::Status CopyToDevice(const void* host, void* device,
                            int64_t bytes) override {
    return device_->CopyToDevice(host, device, bytes);
  }
  absl::Status CopyToHost(const void* device, void* host,
                          int64_t bytes) override {
    return device_->CopyToHost(device, host, bytes);
  }
  absl::StatusOr<std::unique_ptr<kernels::Upload>> PrepareUpload() override {
    return device_->PrepareUpload();
  }
  absl::StatusOr<std::unique_ptr<kernels::Download>> PrepareDownload(
      int64_t bytes) override {
    return device_->PrepareDownload(bytes);
  }
  absl::Status Synchronize() override { return device_->Synchronize(); }
  absl::Status Pace(int ahead) override {
    on_pace();
    return device_->Pace(ahead);
  }
  std::function<void()> on_pace = [] {};  // Called by each Pace.

  absl::StatusOr<std::unique_ptr<kernels::VectorOp>> PrepareVector(
      absl::Span<const ParameterRange> ranges) override {
    return device_->PrepareVector(ranges);
  }
  absl::StatusOr<kernels::AnyOp> PrepareAny(const kernels::OpSpec& spec,
                                            int64_t max_samples) override {
    auto op = device_->PrepareAny(spec, max_samples);
    if (!std::holds_alternative<kernels::DenseShape>(spec)) return op;
    return std::make_unique<Dense>(
        this, std::get<std::unique_ptr<kernels::LinearOp>>(*std::move(op)));
  }

 protected:
  kernels::Device& device() const { return *device_; }

 private:
  class Dense : public kernels::LinearOp {
   public:
    Dense(const SeparateMemoryDevice* device,
          std::unique_ptr<kernels::LinearOp> op)
        : device_(device), op_(std::move(op)) {}
    absl::Status Forward(int64_t samples, const void* x, const float* w,
                         const float* b, void* y) override {
      for (const void* p : std::initializer_list<const void*>{x, w, b, y}) {
        EXPECT_TRUE(device_->InBuffers(p));
      }
      return op_->Forward(samples, x, w, b, y);
    }
    absl::Status Backward(int64_t samples, const void* x, const float* w,
                          const void* dy, void* dx, float* dw,
                          float* db) override {
      for (const void* p :
           std::initializer_list<const void*>{x, w, dy, dw, db}) {
        EXPECT_TRUE(device_->InBuffers(p));
      }
      return op_->Backward(samples, x, w, dy, dx, dw, db);
    }

   private:
    const SeparateMemoryDevice* const device_;
    const std::unique_ptr<kernels::LinearOp> op_;
  };

  const std::unique_ptr<kernels::Device> device_;
  std::vector<std::pair<const char*, int64_t>> buffers_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_SEPARATE_MEMORY_DEVICE_H_
