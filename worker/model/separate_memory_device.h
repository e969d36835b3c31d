#ifndef SLUICE_WORKER_MODEL_SEPARATE_MEMORY_DEVICE_H_
#define SLUICE_WORKER_MODEL_SEPARATE_MEMORY_DEVICE_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
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
  absl::StatusOr<std::unique_ptr<kernels::InputOp>> PrepareInput(
      int64_t channels, int64_t pixels, int64_t max_samples) override {
    return device_->PrepareInput(channels, pixels, max_samples);
  }
  absl::StatusOr<std::unique_ptr<kernels::MapOp>> PrepareFlatten(
      int64_t channels, int64_t pixels, int64_t max_samples) override {
    return device_->PrepareFlatten(channels, pixels, max_samples);
  }
  absl::StatusOr<std::unique_ptr<kernels::LinearOp>> PrepareDense(
      const kernels::DenseShape& shape, int64_t max_samples) override {
    return std::make_unique<Dense>(this,
                                   *device_->PrepareDense(shape, max_samples));
  }
  absl::StatusOr<std::unique_ptr<kernels::LinearOp>> PrepareConv2d(
      const kernels::Conv2dShape& shape, int64_t max_samples) override {
    return device_->PrepareConv2d(shape, max_samples);
  }
  absl::StatusOr<std::unique_ptr<kernels::MapOp>> PrepareMaxPool(
      const kernels::PoolShape& shape, int64_t max_samples) override {
    return device_->PrepareMaxPool(shape, max_samples);
  }
  absl::StatusOr<std::unique_ptr<kernels::MapOp>> PrepareAveragePool(
      const kernels::PoolShape& shape, int64_t max_samples) override {
    return device_->PrepareAveragePool(shape, max_samples);
  }
  absl::StatusOr<std::unique_ptr<kernels::MapOp>> PrepareRelu(
      int64_t size, int64_t max_samples) override {
    return device_->PrepareRelu(size, max_samples);
  }
  absl::StatusOr<std::unique_ptr<kernels::MapOp>> PrepareTanh(
      int64_t size, int64_t max_samples) override {
    return device_->PrepareTanh(size, max_samples);
  }
  absl::StatusOr<std::unique_ptr<kernels::MapOp>> PrepareSigmoid(
      int64_t size, int64_t max_samples) override {
    return device_->PrepareSigmoid(size, max_samples);
  }
  absl::StatusOr<std::unique_ptr<kernels::MapOp>> PrepareGelu(
      int64_t size, int64_t max_samples) override {
    return device_->PrepareGelu(size, max_samples);
  }
  absl::StatusOr<std::unique_ptr<kernels::MapOp>> PrepareGlobalAveragePool(
      int64_t channels, int64_t pixels, int64_t max_samples) override {
    return device_->PrepareGlobalAveragePool(channels, pixels, max_samples);
  }
  absl::StatusOr<std::unique_ptr<kernels::DropoutOp>> PrepareDropout(
      int64_t channels, int64_t pixels, double rate,
      int64_t max_samples) override {
    return device_->PrepareDropout(channels, pixels, rate, max_samples);
  }
  absl::StatusOr<std::unique_ptr<kernels::SumOp>> PrepareSum(
      int64_t size, bool relu, int64_t max_samples) override {
    return device_->PrepareSum(size, relu, max_samples);
  }
  absl::StatusOr<std::unique_ptr<kernels::BatchNormOp>> PrepareBatchNorm(
      const kernels::BatchNormShape& shape, int64_t max_samples) override {
    return device_->PrepareBatchNorm(shape, max_samples);
  }
  absl::StatusOr<std::unique_ptr<kernels::EmbeddingOp>> PrepareEmbedding(
      const kernels::EmbeddingShape& shape, int64_t max_samples) override {
    return device_->PrepareEmbedding(shape, max_samples);
  }
  absl::StatusOr<std::unique_ptr<kernels::LayerNormOp>> PrepareLayerNorm(
      const kernels::LayerNormShape& shape, int64_t max_samples) override {
    return device_->PrepareLayerNorm(shape, max_samples);
  }
  absl::StatusOr<std::unique_ptr<kernels::MapOp>> PrepareAttention(
      const kernels::AttentionShape& shape, int64_t max_samples) override {
    return device_->PrepareAttention(shape, max_samples);
  }
  absl::StatusOr<std::unique_ptr<kernels::SoftmaxCrossEntropyOp>>
  PrepareSoftmaxCrossEntropy(int64_t classes, int64_t max_samples) override {
    return device_->PrepareSoftmaxCrossEntropy(classes, max_samples);
  }
  absl::StatusOr<std::unique_ptr<kernels::MeanSquaredErrorOp>>
  PrepareMeanSquaredError(int64_t outputs, int64_t max_samples) override {
    return device_->PrepareMeanSquaredError(outputs, max_samples);
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
