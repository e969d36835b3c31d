#include "kernels/reference/reference_device.h"

#include <algorithm>

#include "kernels/float_operations.h"
#include "kernels/host_memory.h"
#include "kernels/numerics.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/batch_norm.h"
#include "kernels/reference/dropout.h"
#include "kernels/reference/linear_ops.h"
#include "kernels/reference/losses.h"
#include "kernels/reference/map_ops.h"
#include "kernels/reference/sequence_ops.h"
#include "kernels/reference/vector_op.h"

namespace sluice::kernels {
namespace {

class Dense : public FloatLinearOp {
 public:
  explicit Dense(const DenseShape& shape) : shape_(shape) {}
  absl::Status Forward(int64_t samples, const float* x, const float* w,
                       const float* b, float* y) override {
    reference::DenseForward(shape_, samples, x, w, b, y);
    if (!shape_.relu) return absl::OkStatus();
    reference::ReluForward(samples * shape_.output_size(), y, y);
    return absl::OkStatus();
  }
  absl::Status Backward(int64_t samples, const float* x, const float* w,
                        const float* dy, float* dx, float* dw,
                        float* db) override {
    reference::DenseBackward(shape_, samples, x, w, dy, dx, dw, db);
    return absl::OkStatus();
  }

 private:
  const DenseShape shape_;
};

class Conv2d : public FloatLinearOp {
 public:
  explicit Conv2d(const Conv2dShape& shape) : shape_(shape) {}
  absl::Status Forward(int64_t samples, const float* x, const float* w,
                       const float* b, float* y) override {
    reference::Conv2dForward(shape_, samples, x, w, b, y);
    if (!shape_.relu) return absl::OkStatus();
    reference::ReluForward(samples * shape_.output_size(), y, y);
    return absl::OkStatus();
  }
  absl::Status Backward(int64_t samples, const float* x, const float* w,
                        const float* dy, float* dx, float* dw,
                        float* db) override {
    reference::Conv2dBackward(shape_, samples, x, w, dy, dx, dw, db);
    return absl::OkStatus();
  }

 private:
  const Conv2dShape shape_;
};

class MaxPool : public FloatMapOp {
 public:
  explicit MaxPool(const PoolShape& shape) : shape_(shape) {}
  absl::Status Forward(int64_t samples, const float* x, float* y) override {
    reference::MaxPoolForward(shape_, samples, x, y);
    return absl::OkStatus();
  }
  absl::Status Backward(int64_t samples, const float* x, const float* y,
                        const float* dy, float* dx) override {
    reference::MaxPoolBackward(shape_, samples, x, dy, dx);
    return absl::OkStatus();
  }

 private:
  const PoolShape shape_;
};

class AveragePool : public FloatMapOp {
 public:
  explicit AveragePool(const PoolShape& shape) : shape_(shape) {}
  absl::Status Forward(int64_t samples, const float* x, float* y) override {
    reference::AveragePoolForward(shape_, samples, x, y);
    return absl::OkStatus();
  }
  absl::Status Backward(int64_t samples, const float* x, const float* y,
                        const float* dy, float* dx) override {
    reference::AveragePoolBackward(shape_, samples, dy, dx);
    return absl::OkStatus();
  }

 private:
  const PoolShape shape_;
};

// An elementwise operation of two loops.
class Activation : public FloatMapOp {
 public:
  using ForwardLoop = void (*)(int64_t, const float*, float*);
  using BackwardLoop = void (*)(int64_t, const float*, const float*, float*);
  Activation(int64_t size, ForwardLoop forward, BackwardLoop backward)
      : size_(size), forward_(forward), backward_(backward) {}
  absl::Status Forward(int64_t samples, const float* x, float* y) override {
    forward_(samples * size_, x, y);
    return absl::OkStatus();
  }
  absl::Status Backward(int64_t samples, const float* x, const float* y,
                        const float* dy, float* dx) override {
    backward_(samples * size_, y, dy, dx);
    return absl::OkStatus();
  }

 private:
  const int64_t size_;
  const ForwardLoop forward_;
  const BackwardLoop backward_;
};

class Gelu : public FloatMapOp {
 public:
  explicit Gelu(int64_t size) : size_(size) {}
  absl::Status Forward(int64_t samples, const float* x, float* y) override {
    reference::GeluForward(samples * size_, x, y);
    return absl::OkStatus();
  }
  absl::Status Backward(int64_t samples, const float* x, const float* y,
                        const float* dy, float* dx) override {
    reference::GeluBackward(samples * size_, x, dy, dx);
    return absl::OkStatus();
  }

 private:
  const int64_t size_;
};

class GlobalAveragePool : public FloatMapOp {
 public:
  GlobalAveragePool(int64_t channels, int64_t pixels)
      : channels_(channels), pixels_(pixels) {}
  absl::Status Forward(int64_t samples, const float* x, float* y) override {
    reference::GlobalAveragePoolForward(samples * channels_, pixels_, x, y);
    return absl::OkStatus();
  }
  absl::Status Backward(int64_t samples, const float* x, const float* y,
                        const float* dy, float* dx) override {
    reference::GlobalAveragePoolBackward(samples * channels_, pixels_, dy, dx);
    return absl::OkStatus();
  }

 private:
  const int64_t channels_;
  const int64_t pixels_;
};

class Dropout : public FloatDropoutOp {
 public:
  Dropout(int64_t size, double rate) : size_(size), rate_(rate) {}
  absl::Status SetDraw(std::optional<Draw> draw) override {
    draw_ = draw;
    return absl::OkStatus();
  }
  absl::Status Run(int64_t samples, const float* x, float* y) override {
    if (draw_.has_value()) {
      reference::Dropout(samples * size_, rate_, draw_->key,
                         draw_->first * size_, x, y);
    } else {
      std::copy_n(x, samples * size_, y);
    }
    return absl::OkStatus();
  }

 private:
  const int64_t size_;
  const double rate_;
  std::optional<Draw> draw_;
};

class Sum : public FloatSumOp {
 public:
  Sum(int64_t size, bool relu) : size_(size), relu_(relu) {}
  absl::Status Run(int64_t samples, const float* a, const float* b,
                   float* y) override {
    for (int64_t i = 0; i < samples * size_; ++i) y[i] = a[i] + b[i];
    if (relu_) reference::ReluForward(samples * size_, y, y);
    return absl::OkStatus();
  }

 private:
  const int64_t size_;
  const bool relu_;
};

class BatchNorm : public FloatBatchNormOp {
 public:
  explicit BatchNorm(const BatchNormShape& shape) : shape_(shape) {}
  absl::Status Normalize(int64_t samples, const float* x, const float* gamma,
                         const float* beta, float* mean, float* variance,
                         float* y) override {
    reference::BatchNormStatistics(shape_, samples, x, mean, variance);
    return Apply(samples, x, gamma, beta, mean, variance, y);
  }
  absl::Status Apply(int64_t samples, const float* x, const float* gamma,
                     const float* beta, const float* mean,
                     const float* variance, float* y) override {
    reference::BatchNormApply(shape_, samples, x, gamma, beta, mean, variance,
                              y);
    if (shape_.relu) reference::ReluForward(samples * shape_.size(), y, y);
    return absl::OkStatus();
  }
  absl::Status Backward(int64_t samples, const float* x, const float* gamma,
                        const float* mean, const float* variance,
                        const float* dy, float* dx, float* dgamma,
                        float* dbeta) override {
    reference::BatchNormBackward(shape_, samples, x, gamma, mean, variance, dy,
                                 dx, dgamma, dbeta);
    return absl::OkStatus();
  }

 private:
  const BatchNormShape shape_;
};

class Embedding : public FloatEmbeddingOp {
 public:
  explicit Embedding(const EmbeddingShape& shape) : shape_(shape) {}
  absl::Status Forward(int64_t samples, const float* x, const float* token,
                       const float* position, float* y) override {
    reference::EmbeddingForward(shape_, samples, x, token, position, y);
    return absl::OkStatus();
  }
  absl::Status Backward(int64_t samples, const float* x, const float* dy,
                        bool add, float* dtoken, float* dposition) override {
    reference::EmbeddingBackward(shape_, samples, x, dy, add, dtoken,
                                 dposition);
    return absl::OkStatus();
  }

 private:
  const EmbeddingShape shape_;
};

class LayerNorm : public FloatLayerNormOp {
 public:
  explicit LayerNorm(const LayerNormShape& shape) : shape_(shape) {}
  absl::Status Forward(int64_t samples, const float* x, const float* gamma,
                       const float* beta, float* y) override {
    reference::LayerNormForward(shape_, samples, x, gamma, beta, y);
    return absl::OkStatus();
  }
  absl::Status Backward(int64_t samples, const float* x, const float* gamma,
                        const float* dy, float* dx, float* dgamma,
                        float* dbeta) override {
    reference::LayerNormBackward(shape_, samples, x, gamma, dy, dx, dgamma,
                                 dbeta);
    return absl::OkStatus();
  }

 private:
  const LayerNormShape shape_;
};

class Attention : public FloatMapOp {
 public:
  explicit Attention(const AttentionShape& shape) : shape_(shape) {}
  absl::Status Forward(int64_t samples, const float* x, float* y) override {
    reference::AttentionForward(shape_, samples, x, y);
    return absl::OkStatus();
  }
  absl::Status Backward(int64_t samples, const float* x, const float* y,
                        const float* dy, float* dx) override {
    reference::AttentionBackward(shape_, samples, x, dy, dx);
    return absl::OkStatus();
  }

 private:
  const AttentionShape shape_;
};

class SoftmaxCrossEntropy : public FloatSoftmaxCrossEntropyOp {
 public:
  explicit SoftmaxCrossEntropy(int64_t classes) : classes_(classes) {}
  absl::StatusOr<LossResult> Run(int64_t samples, const float* logits,
                                 const int32_t* labels, float scale,
                                 float* dlogits) override {
    return reference::SoftmaxCrossEntropy(classes_, samples, logits, labels,
                                          scale, dlogits);
  }

 private:
  const int64_t classes_;
};

class MeanSquaredError : public FloatMeanSquaredErrorOp {
 public:
  explicit MeanSquaredError(int64_t outputs) : outputs_(outputs) {}
  absl::StatusOr<LossResult> Run(int64_t samples, const float* outputs,
                                 const float* targets, float scale,
                                 float* doutputs) override {
    return reference::MeanSquaredError(outputs_, samples, outputs, targets,
                                       scale, doutputs);
  }

 private:
  const int64_t outputs_;
};

class ReferenceDevice : public HostMemoryDevice {
 public:
  std::string Description() const override {
    return "reference (plain loops, sums in double, 1 thread)";
  }
  void EnterThread() override { SetNumericMode(); }

  absl::StatusOr<std::unique_ptr<VectorOp>> PrepareVector(
      absl::Span<const ParameterRange> ranges) override {
    return std::make_unique<reference::ReferenceVectorOp>(ranges);
  }
  absl::StatusOr<std::unique_ptr<LinearOp>> PrepareDense(
      const DenseShape& shape, int64_t max_samples) override {
    return std::make_unique<Dense>(shape);
  }
  absl::StatusOr<std::unique_ptr<LinearOp>> PrepareConv2d(
      const Conv2dShape& shape, int64_t max_samples) override {
    return std::make_unique<Conv2d>(shape);
  }
  absl::StatusOr<std::unique_ptr<MapOp>> PrepareMaxPool(
      const PoolShape& shape, int64_t max_samples) override {
    return std::make_unique<MaxPool>(shape);
  }
  absl::StatusOr<std::unique_ptr<MapOp>> PrepareAveragePool(
      const PoolShape& shape, int64_t max_samples) override {
    return std::make_unique<AveragePool>(shape);
  }
  absl::StatusOr<std::unique_ptr<MapOp>> PrepareRelu(
      int64_t size, int64_t max_samples) override {
    return std::make_unique<Activation>(size, reference::ReluForward<float>,
                                        reference::ReluBackward<float>);
  }
  absl::StatusOr<std::unique_ptr<MapOp>> PrepareTanh(
      int64_t size, int64_t max_samples) override {
    return std::make_unique<Activation>(size, reference::TanhForward<float>,
                                        reference::TanhBackward<float>);
  }
  absl::StatusOr<std::unique_ptr<MapOp>> PrepareSigmoid(
      int64_t size, int64_t max_samples) override {
    return std::make_unique<Activation>(size, reference::SigmoidForward<float>,
                                        reference::SigmoidBackward<float>);
  }
  absl::StatusOr<std::unique_ptr<MapOp>> PrepareGelu(
      int64_t size, int64_t max_samples) override {
    return std::make_unique<Gelu>(size);
  }
  absl::StatusOr<std::unique_ptr<MapOp>> PrepareGlobalAveragePool(
      int64_t channels, int64_t pixels, int64_t max_samples) override {
    return std::make_unique<GlobalAveragePool>(channels, pixels);
  }
  absl::StatusOr<std::unique_ptr<DropoutOp>> PrepareDropout(
      int64_t channels, int64_t pixels, double rate,
      int64_t max_samples) override {
    return std::make_unique<Dropout>(channels * pixels, rate);
  }
  absl::StatusOr<std::unique_ptr<SumOp>> PrepareSum(
      int64_t size, bool relu, int64_t max_samples) override {
    return std::make_unique<Sum>(size, relu);
  }
  absl::StatusOr<std::unique_ptr<BatchNormOp>> PrepareBatchNorm(
      const BatchNormShape& shape, int64_t max_samples) override {
    return std::make_unique<BatchNorm>(shape);
  }
  absl::StatusOr<std::unique_ptr<EmbeddingOp>> PrepareEmbedding(
      const EmbeddingShape& shape, int64_t max_samples) override {
    return std::make_unique<Embedding>(shape);
  }
  absl::StatusOr<std::unique_ptr<LayerNormOp>> PrepareLayerNorm(
      const LayerNormShape& shape, int64_t max_samples) override {
    return std::make_unique<LayerNorm>(shape);
  }
  absl::StatusOr<std::unique_ptr<MapOp>> PrepareAttention(
      const AttentionShape& shape, int64_t max_samples) override {
    return std::make_unique<Attention>(shape);
  }
  absl::StatusOr<std::unique_ptr<SoftmaxCrossEntropyOp>>
  PrepareSoftmaxCrossEntropy(int64_t classes, int64_t max_samples) override {
    return std::make_unique<SoftmaxCrossEntropy>(classes);
  }
  absl::StatusOr<std::unique_ptr<MeanSquaredErrorOp>> PrepareMeanSquaredError(
      int64_t outputs, int64_t max_samples) override {
    return std::make_unique<MeanSquaredError>(outputs);
  }
};

}  // namespace

std::unique_ptr<Device> MakeReferenceDevice() {
  return std::make_unique<ReferenceDevice>();
}

}  // namespace sluice::kernels
