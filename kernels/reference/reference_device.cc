// The reference loops behind the interface of a device. Whatever a model does
// can so be run on them, slowly, and compared. Plain loops on one thread: no
// library, no blocking, no vectors, so a reader can check them against the
// formulas in kernels/shapes.h.
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
  explicit GlobalAveragePool(const GlobalAveragePoolShape& shape)
      : shape_(shape) {}
  absl::Status Forward(int64_t samples, const float* x, float* y) override {
    reference::GlobalAveragePoolForward(samples * shape_.channels,
                                        shape_.pixels, x, y);
    return absl::OkStatus();
  }
  absl::Status Backward(int64_t samples, const float* x, const float* y,
                        const float* dy, float* dx) override {
    reference::GlobalAveragePoolBackward(samples * shape_.channels,
                                         shape_.pixels, dy, dx);
    return absl::OkStatus();
  }

 private:
  const GlobalAveragePoolShape shape_;
};

class Dropout : public FloatDropoutOp {
 public:
  explicit Dropout(const DropoutShape& shape) : shape_(shape) {}
  absl::Status SetDraw(std::optional<Draw> draw) override {
    draw_ = draw;
    return absl::OkStatus();
  }
  absl::Status Run(int64_t samples, const float* x, float* y) override {
    if (draw_.has_value()) {
      reference::Dropout(samples * shape_.size(), shape_.rate, draw_->key,
                         draw_->first * shape_.size(), x, y);
    } else {
      std::copy_n(x, samples * shape_.size(), y);
    }
    return absl::OkStatus();
  }

 private:
  const DropoutShape shape_;
  std::optional<Draw> draw_;
};

class Sum : public FloatSumOp {
 public:
  explicit Sum(const SumShape& shape) : shape_(shape) {}
  absl::Status Run(int64_t samples, const float* a, const float* b,
                   float* y) override {
    const int64_t size = samples * shape_.size;
    for (int64_t i = 0; i < size; ++i) y[i] = a[i] + b[i];
    if (shape_.relu) reference::ReluForward(size, y, y);
    return absl::OkStatus();
  }

 private:
  const SumShape shape_;
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

std::unique_ptr<InputOp> Make(const InputShape&) { return nullptr; }
std::unique_ptr<MapOp> Make(const FlattenShape&) { return nullptr; }
std::unique_ptr<LinearOp> Make(const DenseShape& shape) {
  return std::make_unique<Dense>(shape);
}
std::unique_ptr<LinearOp> Make(const Conv2dShape& shape) {
  return std::make_unique<Conv2d>(shape);
}
std::unique_ptr<MapOp> Make(const PoolShape& shape) {
  if (shape.kind == PoolKind::kMax) return std::make_unique<MaxPool>(shape);
  return std::make_unique<AveragePool>(shape);
}
std::unique_ptr<MapOp> Make(const GlobalAveragePoolShape& shape) {
  return std::make_unique<GlobalAveragePool>(shape);
}
std::unique_ptr<MapOp> Make(const ActivationShape& shape) {
  using reference::ReluBackward, reference::ReluForward;
  using reference::SigmoidBackward, reference::SigmoidForward;
  using reference::TanhBackward, reference::TanhForward;
  switch (shape.kind) {
    case ActivationKind::kRelu:
      return std::make_unique<Activation>(shape.size, ReluForward<float>,
                                          ReluBackward<float>);
    case ActivationKind::kTanh:
      return std::make_unique<Activation>(shape.size, TanhForward<float>,
                                          TanhBackward<float>);
    case ActivationKind::kSigmoid:
      return std::make_unique<Activation>(shape.size, SigmoidForward<float>,
                                          SigmoidBackward<float>);
    case ActivationKind::kGelu:
      break;
  }
  return std::make_unique<Gelu>(shape.size);
}
std::unique_ptr<DropoutOp> Make(const DropoutShape& shape) {
  return std::make_unique<Dropout>(shape);
}
std::unique_ptr<SumOp> Make(const SumShape& shape) {
  return std::make_unique<Sum>(shape);
}
std::unique_ptr<BatchNormOp> Make(const BatchNormShape& shape) {
  return std::make_unique<BatchNorm>(shape);
}
std::unique_ptr<EmbeddingOp> Make(const EmbeddingShape& shape) {
  return std::make_unique<Embedding>(shape);
}
std::unique_ptr<LayerNormOp> Make(const LayerNormShape& shape) {
  return std::make_unique<LayerNorm>(shape);
}
std::unique_ptr<MapOp> Make(const AttentionShape& shape) {
  return std::make_unique<Attention>(shape);
}
std::unique_ptr<SoftmaxCrossEntropyOp> Make(
    const SoftmaxCrossEntropyShape& shape) {
  return std::make_unique<SoftmaxCrossEntropy>(shape.classes);
}
std::unique_ptr<MeanSquaredErrorOp> Make(const MeanSquaredErrorShape& shape) {
  return std::make_unique<MeanSquaredError>(shape.outputs);
}

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
  absl::StatusOr<AnyOp> PrepareAny(const OpSpec& spec, int64_t) override {
    return PrepareEach(spec, [](const auto& shape) { return Make(shape); });
  }
};

}  // namespace

std::unique_ptr<Device> MakeReferenceDevice() {
  return std::make_unique<ReferenceDevice>();
}

}  // namespace sluice::kernels
