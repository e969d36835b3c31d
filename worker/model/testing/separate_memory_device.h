#ifndef SLUICE_WORKER_MODEL_TESTING_SEPARATE_MEMORY_DEVICE_H_
#define SLUICE_WORKER_MODEL_TESTING_SEPARATE_MEMORY_DEVICE_H_

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/accelerator.h"
#include "kernels/reference/reference_device.h"
#include "kernels/testing/on_device.h"

namespace sluice {

// A device, the reference at first, on arrays that the host must not touch
// itself: memory may be the host's, but arguments of dense products are
// expected in buffers.
//
// Not thread-safe: call from the thread of the test.
class SeparateMemoryDevice : public kernels::Accelerator {
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
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> Allocate(
      int64_t bytes) override {
    auto buffer = device_->Allocate(bytes);
    buffers_.emplace_back(static_cast<char*>((*buffer)->data()), bytes);
    return buffer;
  }
  absl::Status CopyToDevice(const void* host, void* device,
                            int64_t bytes) override {
    return kernels::CopyToDevice(device_.get(), host, device, bytes);
  }
  absl::Status CopyToHost(const void* device, void* host,
                          int64_t bytes) override {
    return kernels::CopyToHost(device_.get(), device, host, bytes);
  }
  absl::StatusOr<std::unique_ptr<kernels::Upload>> PrepareUpload() override {
    if (gpu() == nullptr) return std::make_unique<HostUpload>();
    return gpu()->PrepareUpload();
  }
  absl::StatusOr<std::unique_ptr<kernels::Download>> PrepareDownload(
      int64_t bytes) override {
    if (gpu() == nullptr) return std::make_unique<HostDownload>();
    return gpu()->PrepareDownload(bytes);
  }
  std::unique_ptr<kernels::Registration> Register(void* host,
                                                  int64_t bytes) override {
    return gpu() == nullptr ? nullptr : gpu()->Register(host, bytes);
  }
  absl::Status Synchronize() override {
    return gpu() == nullptr ? absl::OkStatus() : gpu()->Synchronize();
  }
  absl::Status Pace(int ahead) override {
    on_pace();
    return gpu() == nullptr ? absl::OkStatus() : gpu()->Pace(ahead);
  }
  absl::StatusOr<std::unique_ptr<kernels::Recording>> Record(
      absl::FunctionRef<absl::Status()> calls) override {
    if (gpu() != nullptr) return gpu()->Record(calls);
    return absl::UnimplementedError("the reference records nothing");
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
  // The device, if it is one.
  kernels::Accelerator* gpu() const { return device_->accelerator(); }

 private:
  class HostUpload : public kernels::Upload {
   public:
    absl::Status Begin() override { return absl::OkStatus(); }
    absl::Status Send(const void* host, void* device, int64_t bytes) override {
      if (bytes > 0) std::memcpy(device, host, bytes);
      return absl::OkStatus();
    }
  };

  // Nothing is under way: a part is read when it is taken.
  class HostDownload : public kernels::Download {
   public:
    absl::Status Begin(const void* device, void* host, int64_t bytes) override {
      parts_.push_back({device, host, bytes});
      return absl::OkStatus();
    }
    absl::StatusOr<bool> Take(bool) override {
      const Part part = parts_.front();
      parts_.pop_front();
      if (part.bytes > 0) std::memcpy(part.host, part.device, part.bytes);
      return true;
    }
    absl::Status Drop() override {
      parts_.clear();
      return absl::OkStatus();
    }

   private:
    struct Part {
      const void* device;
      void* host;
      int64_t bytes;
    };
    std::deque<Part> parts_;
  };

  class Dense : public kernels::LinearOp {
   public:
    Dense(const SeparateMemoryDevice* device,
          std::unique_ptr<kernels::LinearOp> op)
        : device_(device), op_(std::move(op)) {}
    absl::Status Forward(int64_t samples, const void* x, const float* w,
                         const float* b, void* y) override {
      for (const void* p : std::initializer_list<const void*>{x, w, b, y}) {
        EXPECT_TRUE(p == nullptr || device_->InBuffers(p));  // No bias.
      }
      return op_->Forward(samples, x, w, b, y);
    }
    absl::Status Backward(int64_t samples, const void* x, const float* w,
                          const void* dy, void* dx, float* dw,
                          float* db) override {
      for (const void* p :
           std::initializer_list<const void*>{x, w, dy, dw, db}) {
        EXPECT_TRUE(p == nullptr || device_->InBuffers(p));
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

#endif  // SLUICE_WORKER_MODEL_TESTING_SEPARATE_MEMORY_DEVICE_H_
