#include "kernels/cuda/device_on_backend.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/op_context.h"
#include "kernels/cuda/ops.h"

namespace sluice::kernels::cuda {
namespace {

class DeviceOnBackend : public Device {
 public:
  DeviceOnBackend(std::unique_ptr<Backend> backend, Precision precision)
      : context_(std::move(backend), precision) {}

  std::string Description() const override {
    return absl::StrCat("cuda (", context_.backend().Description(), ", ",
                        NameOf(context_.precision()), ")");
  }
  void EnterThread() override { entered_ = context_.backend().EnterThread(); }
  int64_t activation_bytes() const override {
    return BytesOf(context_.precision());
  }
  bool uses_host_memory() const override { return false; }

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes) override {
    SLUICE_RETURN_IF_ERROR(entered_);
    return context_.backend().Allocate(bytes);
  }
  absl::Status CopyToDevice(const void* host, void* device,
                            int64_t bytes) override {
    SLUICE_RETURN_IF_ERROR(entered_);
    return context_.backend().CopyToDevice(host, device, bytes);
  }
  absl::Status CopyToHost(const void* device, void* host,
                          int64_t bytes) override {
    SLUICE_RETURN_IF_ERROR(entered_);
    return context_.backend().CopyToHost(device, host, bytes);
  }
  absl::StatusOr<std::unique_ptr<Upload>> PrepareUpload() override {
    return context_.backend().PrepareUpload();
  }
  absl::StatusOr<std::unique_ptr<Download>> PrepareDownload(
      int64_t bytes) override {
    SLUICE_RETURN_IF_ERROR(entered_);
    return context_.backend().PrepareDownload(bytes);
  }
  absl::Status Synchronize() override {
    SLUICE_RETURN_IF_ERROR(entered_);
    return context_.backend().Synchronize();
  }
  absl::Status Pace(int ahead) override {
    return context_.backend().Pace(ahead);
  }
  bool can_record() const override { return true; }
  absl::StatusOr<std::unique_ptr<Recording>> Record(
      absl::FunctionRef<absl::Status()> calls) override {
    SLUICE_RETURN_IF_ERROR(entered_);
    return context_.Record(calls);
  }

  absl::StatusOr<std::unique_ptr<VectorOp>> PrepareVector(
      absl::Span<const ParameterRange> ranges) override {
    SLUICE_RETURN_IF_ERROR(entered_);
    return MakeVectorOp(&context_, ranges);
  }
  absl::StatusOr<std::unique_ptr<InputOp>> PrepareInput(
      int64_t channels, int64_t pixels, int64_t max_samples) override {
    return MakeInput(&context_, channels, pixels, max_samples);
  }
  absl::StatusOr<std::unique_ptr<MapOp>> PrepareFlatten(
      int64_t channels, int64_t pixels, int64_t max_samples) override {
    return MakeFlatten(&context_, channels, pixels, max_samples);
  }
  absl::StatusOr<std::unique_ptr<LinearOp>> PrepareDense(
      const DenseShape& shape, int64_t max_samples) override {
    return MakeDense(&context_, shape, max_samples);
  }
  absl::StatusOr<std::unique_ptr<LinearOp>> PrepareConv2d(
      const Conv2dShape& shape, int64_t max_samples) override {
    return MakeConv2d(&context_, shape, max_samples);
  }
  absl::StatusOr<std::unique_ptr<MapOp>> PrepareMaxPool(
      const PoolShape& shape, int64_t max_samples) override {
    return MakePool(&context_, PoolKind::kMax, shape, max_samples);
  }
  absl::StatusOr<std::unique_ptr<MapOp>> PrepareAveragePool(
      const PoolShape& shape, int64_t max_samples) override {
    return MakePool(&context_, PoolKind::kAverage, shape, max_samples);
  }
  absl::StatusOr<std::unique_ptr<MapOp>> PrepareGlobalAveragePool(
      int64_t channels, int64_t pixels, int64_t max_samples) override {
    return MakeGlobalAveragePool(&context_, channels, pixels, max_samples);
  }
  absl::StatusOr<std::unique_ptr<MapOp>> PrepareRelu(
      int64_t size, int64_t max_samples) override {
    return MakeActivation(&context_, ActivationKind::kRelu, size, max_samples);
  }
  absl::StatusOr<std::unique_ptr<MapOp>> PrepareTanh(
      int64_t size, int64_t max_samples) override {
    return MakeActivation(&context_, ActivationKind::kTanh, size, max_samples);
  }
  absl::StatusOr<std::unique_ptr<MapOp>> PrepareSigmoid(
      int64_t size, int64_t max_samples) override {
    return MakeActivation(&context_, ActivationKind::kSigmoid, size,
                          max_samples);
  }
  absl::StatusOr<std::unique_ptr<MapOp>> PrepareGelu(
      int64_t size, int64_t max_samples) override {
    return MakeActivation(&context_, ActivationKind::kGelu, size, max_samples);
  }
  absl::StatusOr<std::unique_ptr<DropoutOp>> PrepareDropout(
      int64_t channels, int64_t pixels, double rate,
      int64_t max_samples) override {
    return MakeDropout(&context_, channels, pixels, rate, max_samples);
  }
  absl::StatusOr<std::unique_ptr<SumOp>> PrepareSum(
      int64_t size, bool relu, int64_t max_samples) override {
    return MakeSum(&context_, size, relu, max_samples);
  }
  absl::StatusOr<std::unique_ptr<BatchNormOp>> PrepareBatchNorm(
      const BatchNormShape& shape, int64_t max_samples) override {
    return MakeBatchNorm(&context_, shape, max_samples);
  }
  absl::StatusOr<std::unique_ptr<EmbeddingOp>> PrepareEmbedding(
      const EmbeddingShape& shape, int64_t max_samples) override {
    return MakeEmbedding(&context_, shape, max_samples);
  }
  absl::StatusOr<std::unique_ptr<LayerNormOp>> PrepareLayerNorm(
      const LayerNormShape& shape, int64_t max_samples) override {
    return MakeLayerNorm(&context_, shape, max_samples);
  }
  absl::StatusOr<std::unique_ptr<MapOp>> PrepareAttention(
      const AttentionShape& shape, int64_t max_samples) override {
    return MakeAttention(&context_, shape, max_samples);
  }
  absl::StatusOr<std::unique_ptr<SoftmaxCrossEntropyOp>>
  PrepareSoftmaxCrossEntropy(int64_t classes, int64_t max_samples) override {
    return MakeSoftmaxCrossEntropy(&context_, classes, max_samples);
  }
  absl::StatusOr<std::unique_ptr<MeanSquaredErrorOp>> PrepareMeanSquaredError(
      int64_t outputs, int64_t max_samples) override {
    return MakeMeanSquaredError(&context_, outputs, max_samples);
  }

 private:
  OpContext context_;
  absl::Status entered_;  // Of the thread that entered last.
};

}  // namespace

std::unique_ptr<Device> MakeDeviceOn(std::unique_ptr<Backend> backend,
                                     Precision precision) {
  return std::make_unique<DeviceOnBackend>(std::move(backend), precision);
}

}  // namespace sluice::kernels::cuda
