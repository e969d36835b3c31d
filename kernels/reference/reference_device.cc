// The reference loops behind the interface of a device. Whatever a model does
// can so be run on them, slowly, and compared. Plain loops on one thread: no
// library, no blocking, no vectors, so a reader can check them against the
// formulas in kernels/shapes.h.
#include "kernels/reference/reference_device.h"

#include <gnu/libc-version.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/host_vector_op.h"
#include "kernels/numerics.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/batch_norm.h"
#include "kernels/reference/linear_ops.h"
#include "kernels/reference/losses.h"
#include "kernels/reference/map_ops.h"
#include "kernels/reference/sequence_ops.h"

namespace sluice::kernels {
namespace {

// An operation with weights, by the functions of its formulas.
template <typename Shape, auto kForward, auto kBackward>
class Linear : public LinearOp {
 public:
  explicit Linear(const Shape& shape) : shape_(shape) {}
  absl::Status Forward(int64_t samples, const void* x, const float* w,
                       const float* b, void* y) override {
    float* const out = AsFloats(y);
    kForward(shape_, samples, AsFloats(x), w, b, out);
    if (!shape_.relu) return absl::OkStatus();
    reference::ReluForward(samples * shape_.output_size(), out, out);
    return absl::OkStatus();
  }
  absl::Status Backward(int64_t samples, const void* x, const float* w,
                        const void* dy, void* dx, float* dw,
                        float* db) override {
    kBackward(shape_, samples, AsFloats(x), w, AsFloats(dy), AsFloats(dx), dw,
              db);
    return absl::OkStatus();
  }

 private:
  const Shape shape_;
};

// An operation without weights: `forward(samples, x, y)` and
// `backward(samples, x, y, dy, dx)`.
template <typename ForwardLoop, typename BackwardLoop>
class Map : public MapOp {
 public:
  Map(ForwardLoop forward, BackwardLoop backward)
      : forward_(forward), backward_(backward) {}
  absl::Status Forward(int64_t samples, const void* x, void* y) override {
    forward_(samples, AsFloats(x), AsFloats(y));
    return absl::OkStatus();
  }
  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy, void* dx) override {
    backward_(samples, AsFloats(x), AsFloats(y), AsFloats(dy), AsFloats(dx));
    return absl::OkStatus();
  }

 private:
  const ForwardLoop forward_;
  const BackwardLoop backward_;
};

template <typename ForwardLoop, typename BackwardLoop>
std::unique_ptr<MapOp> MakeMap(ForwardLoop forward, BackwardLoop backward) {
  return std::make_unique<Map<ForwardLoop, BackwardLoop>>(forward, backward);
}

// An elementwise operation of two loops, the second of which looks at y.
std::unique_ptr<MapOp> MakeActivation(
    int64_t size, void (*forward)(int64_t, const float*, float*),
    void (*backward)(int64_t, const float*, const float*, float*)) {
  return MakeMap(
      [=](int64_t samples, const float* x, float* y) {
        forward(samples * size, x, y);
      },
      [=](int64_t samples, const float*, const float* y, const float* dy,
          float* dx) { backward(samples * size, y, dy, dx); });
}

class Dropout : public DropoutOp {
 public:
  explicit Dropout(const DropoutShape& shape) : shape_(shape) {}
  absl::Status SetDraw(std::optional<Draw> draw) override {
    draw_ = draw;
    return absl::OkStatus();
  }
  absl::Status Run(int64_t samples, const void* x, void* y) override {
    if (draw_.has_value()) {
      reference::Dropout(samples * shape_.size(), shape_.rate, draw_->key,
                         draw_->first * shape_.size(), AsFloats(x),
                         AsFloats(y));
    } else {
      std::copy_n(AsFloats(x), samples * shape_.size(), AsFloats(y));
    }
    return absl::OkStatus();
  }

 private:
  const DropoutShape shape_;
  std::optional<Draw> draw_;
};

class Sum : public SumOp {
 public:
  explicit Sum(const SumShape& shape) : shape_(shape) {}
  absl::Status Run(int64_t samples, const void* a, const void* b,
                   void* y) override {
    const int64_t size = samples * shape_.size;
    float* const sums = AsFloats(y);
    for (int64_t i = 0; i < size; ++i)
      sums[i] = AsFloats(a)[i] + AsFloats(b)[i];
    if (shape_.relu) reference::ReluForward(size, sums, sums);
    return absl::OkStatus();
  }

 private:
  const SumShape shape_;
};

class BatchNorm : public BatchNormOp {
 public:
  explicit BatchNorm(const BatchNormShape& shape) : shape_(shape) {}
  absl::Status Normalize(int64_t samples, const void* x, const float* gamma,
                         const float* beta, float* mean, float* variance,
                         void* y) override {
    reference::BatchNormStatistics(shape_, samples, AsFloats(x), mean,
                                   variance);
    return Apply(samples, x, gamma, beta, mean, variance, y);
  }
  absl::Status Apply(int64_t samples, const void* x, const float* gamma,
                     const float* beta, const float* mean,
                     const float* variance, void* y) override {
    float* const out = AsFloats(y);
    reference::BatchNormApply(shape_, samples, AsFloats(x), gamma, beta, mean,
                              variance, out);
    if (shape_.relu) reference::ReluForward(samples * shape_.size(), out, out);
    return absl::OkStatus();
  }
  absl::Status Backward(int64_t samples, const void* x, const float* gamma,
                        const float* mean, const float* variance,
                        const void* dy, void* dx, float* dgamma,
                        float* dbeta) override {
    reference::BatchNormBackward(shape_, samples, AsFloats(x), gamma, mean,
                                 variance, AsFloats(dy), AsFloats(dx), dgamma,
                                 dbeta);
    return absl::OkStatus();
  }

 private:
  const BatchNormShape shape_;
};

class Embedding : public EmbeddingOp {
 public:
  explicit Embedding(const EmbeddingShape& shape) : shape_(shape) {}
  absl::Status Forward(int64_t samples, const float* x, const float* token,
                       const float* position, void* y) override {
    reference::EmbeddingForward(shape_, samples, x, token, position,
                                AsFloats(y));
    return absl::OkStatus();
  }
  absl::Status Backward(int64_t samples, const float* x, const void* dy,
                        bool add, float* dtoken, float* dposition) override {
    reference::EmbeddingBackward(shape_, samples, x, AsFloats(dy), add, dtoken,
                                 dposition);
    return absl::OkStatus();
  }

 private:
  const EmbeddingShape shape_;
};

class LayerNorm : public LayerNormOp {
 public:
  explicit LayerNorm(const LayerNormShape& shape) : shape_(shape) {}
  absl::Status Forward(int64_t samples, const void* x, const float* gamma,
                       const float* beta, void* y) override {
    reference::LayerNormForward(shape_, samples, AsFloats(x), gamma, beta,
                                AsFloats(y));
    return absl::OkStatus();
  }
  absl::Status Backward(int64_t samples, const void* x, const float* gamma,
                        const void* dy, void* dx, float* dgamma,
                        float* dbeta) override {
    reference::LayerNormBackward(shape_, samples, AsFloats(x), gamma,
                                 AsFloats(dy), AsFloats(dx), dgamma, dbeta);
    return absl::OkStatus();
  }

 private:
  const LayerNormShape shape_;
};

class SoftmaxCrossEntropy : public SoftmaxCrossEntropyOp {
 public:
  explicit SoftmaxCrossEntropy(int64_t classes) : classes_(classes) {}
  absl::StatusOr<LossResult> Run(int64_t samples, const void* logits,
                                 const int32_t* labels, float scale,
                                 void* dlogits) override {
    return reference::SoftmaxCrossEntropy(classes_, samples, AsFloats(logits),
                                          labels, scale, AsFloats(dlogits));
  }

 private:
  const int64_t classes_;
};

class MeanSquaredError : public MeanSquaredErrorOp {
 public:
  explicit MeanSquaredError(int64_t outputs) : outputs_(outputs) {}
  absl::StatusOr<LossResult> Run(int64_t samples, const void* outputs,
                                 const float* targets, float scale,
                                 void* doutputs) override {
    return reference::MeanSquaredError(outputs_, samples, AsFloats(outputs),
                                       targets, scale, AsFloats(doutputs));
  }

 private:
  const int64_t outputs_;
};

class Vector : public HostVectorOp {
 public:
  using HostVectorOp::HostVectorOp;

 private:
  void ScaleRange(int64_t n, float a, const float* x, float* y) override {
    for (int64_t i = 0; i < n; ++i) y[i] = a * x[i];
  }
  void AddRange(int64_t n, float a, const float* x, float* y) override {
    for (int64_t i = 0; i < n; ++i) y[i] = std::fma(a, x[i], y[i]);
  }
  double SquaresOfRange(int64_t n, const float* x) override {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
    return sum;
  }
};

// Activations are floats in row-major order.
OpOr<InputShape> Make(const InputShape&) { return nullptr; }
OpOr<FlattenShape> Make(const FlattenShape&) { return nullptr; }
OpOr<DenseShape> Make(const DenseShape& shape) {
  return std::make_unique<Linear<DenseShape, reference::DenseForward<float>,
                                 reference::DenseBackward<float>>>(shape);
}
OpOr<Conv2dShape> Make(const Conv2dShape& shape) {
  return std::make_unique<Linear<Conv2dShape, reference::Conv2dForward<float>,
                                 reference::Conv2dBackward<float>>>(shape);
}
OpOr<PoolShape> Make(const PoolShape& shape) {
  const bool max = shape.kind == PoolKind::kMax;
  return MakeMap(
      [=](int64_t samples, const float* x, float* y) {
        if (max) return reference::MaxPoolForward(shape, samples, x, y);
        reference::AveragePoolForward(shape, samples, x, y);
      },
      [=](int64_t samples, const float* x, const float*, const float* dy,
          float* dx) {
        if (max) return reference::MaxPoolBackward(shape, samples, x, dy, dx);
        reference::AveragePoolBackward(shape, samples, dy, dx);
      });
}
OpOr<GlobalAveragePoolShape> Make(const GlobalAveragePoolShape& s) {
  return MakeMap(
      [=](int64_t samples, const float* x, float* y) {
        reference::GlobalAveragePoolForward(samples * s.channels, s.pixels, x,
                                            y);
      },
      [=](int64_t samples, const float*, const float*, const float* dy,
          float* dx) {
        reference::GlobalAveragePoolBackward(samples * s.channels, s.pixels, dy,
                                             dx);
      });
}
OpOr<ActivationShape> Make(const ActivationShape& shape) {
  switch (shape.kind) {
    case ActivationKind::kRelu:
      return MakeActivation(shape.size, reference::ReluForward<float>,
                            reference::ReluBackward<float>);
    case ActivationKind::kTanh:
      return MakeActivation(shape.size, reference::TanhForward<float>,
                            reference::TanhBackward<float>);
    case ActivationKind::kSigmoid:
      return MakeActivation(shape.size, reference::SigmoidForward<float>,
                            reference::SigmoidBackward<float>);
    case ActivationKind::kGelu:
      break;
  }
  return MakeMap(
      [=](int64_t samples, const float* x, float* y) {
        reference::GeluForward(samples * shape.size, x, y);
      },
      [=](int64_t samples, const float* x, const float*, const float* dy,
          float* dx) {
        reference::GeluBackward(samples * shape.size, x, dy, dx);
      });
}
OpOr<DropoutShape> Make(const DropoutShape& shape) {
  return std::make_unique<Dropout>(shape);
}
OpOr<SumShape> Make(const SumShape& shape) {
  return std::make_unique<Sum>(shape);
}
OpOr<BatchNormShape> Make(const BatchNormShape& shape) {
  return std::make_unique<BatchNorm>(shape);
}
OpOr<EmbeddingShape> Make(const EmbeddingShape& shape) {
  return std::make_unique<Embedding>(shape);
}
OpOr<LayerNormShape> Make(const LayerNormShape& shape) {
  return std::make_unique<LayerNorm>(shape);
}
OpOr<AttentionShape> Make(const AttentionShape& shape) {
  return MakeMap(
      [=](int64_t samples, const float* x, float* y) {
        reference::AttentionForward(shape, samples, x, y);
      },
      [=](int64_t samples, const float* x, const float*, const float* dy,
          float* dx) {
        reference::AttentionBackward(shape, samples, x, dy, dx);
      });
}
OpOr<SoftmaxCrossEntropyShape> Make(const SoftmaxCrossEntropyShape& shape) {
  return std::make_unique<SoftmaxCrossEntropy>(shape.classes);
}
OpOr<MeanSquaredErrorShape> Make(const MeanSquaredErrorShape& shape) {
  return std::make_unique<MeanSquaredError>(shape.outputs);
}

class ReferenceDevice : public Device {
 public:
  std::string Description() const override {
    // glibc has exp, log, tanh and erf, each once with fma and once without.
    return absl::StrCat("reference (plain loops, sums in double, glibc ",
                        gnu_get_libc_version(), ", ",
                        __builtin_cpu_supports("fma") ? "fma" : "no fma",
                        ", 1 thread)");
  }
  void EnterThread() override { SetNumericMode(); }

  absl::StatusOr<std::unique_ptr<VectorOp>> PrepareVector(
      absl::Span<const ParameterRange> ranges) override {
    return std::make_unique<Vector>(ranges);
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
