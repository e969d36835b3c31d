// Pooling, activations, dropout and sums.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/ops.h"

namespace sluice::kernels::cuda {
namespace {

class Activation : public MapOp {
 public:
  Activation(OpContext* context, std::string name, ActivationKind kind,
             int64_t size)
      : context_(*context), name_(std::move(name)), kind_(kind), size_(size) {}

  absl::Status Forward(int64_t samples, const void* x, void* y) override {
    return context_.Launched(
        name_, ActivationForward(context_.stream(), context_.precision(), kind_,
                                 samples * size_, x, y));
  }
  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy, void* dx) override {
    const void* seen = kind_ == ActivationKind::kGelu ? x : y;
    return context_.Launched(
        name_, ActivationBackward(context_.stream(), context_.precision(),
                                  kind_, samples * size_, seen, dy, dx));
  }

 private:
  OpContext& context_;
  const std::string name_;
  const ActivationKind kind_;
  const int64_t size_;
};

class Pool : public MapOp {
 public:
  Pool(OpContext* context, std::string name, PoolKind kind,
       const PoolShape& shape)
      : context_(*context),
        name_(std::move(name)),
        kind_(kind),
        shape_(shape) {}

  absl::Status Forward(int64_t samples, const void* x, void* y) override {
    const auto run =
        kind_ == PoolKind::kMax ? MaxPoolForward : AveragePoolForward;
    return context_.Launched(name_, run(context_.stream(), context_.precision(),
                                        shape_, samples, x, y));
  }
  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy, void* dx) override {
    const Stream stream = context_.stream();
    const Precision precision = context_.precision();
    return context_.Launched(
        name_,
        kind_ == PoolKind::kMax
            ? MaxPoolBackward(stream, precision, shape_, samples, x, dy, dx)
            : AveragePoolBackward(stream, precision, shape_, samples, dy, dx));
  }

 private:
  OpContext& context_;
  const std::string name_;
  const PoolKind kind_;
  const PoolShape shape_;
};

class GlobalAveragePool : public MapOp {
 public:
  GlobalAveragePool(OpContext* context, std::string name, int64_t channels,
                    int64_t pixels)
      : context_(*context),
        name_(std::move(name)),
        channels_(channels),
        pixels_(pixels) {}

  absl::Status Forward(int64_t samples, const void* x, void* y) override {
    return context_.Launched(
        name_, GlobalAveragePoolForward(context_.stream(), context_.precision(),
                                        samples, channels_, pixels_, x, y));
  }
  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy, void* dx) override {
    return context_.Launched(name_, GlobalAveragePoolBackward(
                                        context_.stream(), context_.precision(),
                                        samples, channels_, pixels_, dy, dx));
  }

 private:
  OpContext& context_;
  const std::string name_;
  const int64_t channels_;
  const int64_t pixels_;
};

class DropoutOnGpu : public DropoutOp {
 public:
  // `draw` is device memory.
  DropoutOnGpu(OpContext* context, std::string name, int64_t channels,
               int64_t pixels, double rate, std::unique_ptr<Buffer> draw)
      : context_(*context),
        name_(std::move(name)),
        channels_(channels),
        pixels_(pixels),
        rate_(rate),
        draw_(std::move(draw)) {}

  absl::Status SetDraw(std::optional<Draw> draw) override {
    draws_ = draw.has_value();
    if (!draws_) return absl::OkStatus();
    const DropoutDraw numbers = {
        draw->key, static_cast<uint64_t>(draw->first * channels_ * pixels_)};
    return context_.Launched(
        name_, StoreDraw(context_.stream(), numbers, DrawOnGpu()));
  }

  absl::Status Run(int64_t samples, const void* x, void* y) override {
    const Precision precision = context_.precision();
    if (draws_) {
      return context_.Launched(
          name_, Dropout(context_.stream(), precision, samples, channels_,
                         pixels_, rate_, DrawOnGpu(), x, y));
    }
    if (x == y || samples == 0) return absl::OkStatus();
    const int64_t bytes = samples * channels_ * pixels_ * BytesOf(precision);
    return Named(name_, context_.backend().Copy(x, y, bytes));
  }

 private:
  DropoutDraw* DrawOnGpu() { return static_cast<DropoutDraw*>(draw_->data()); }

  OpContext& context_;
  const std::string name_;
  const int64_t channels_;
  const int64_t pixels_;
  const double rate_;
  // A recording reads the draw of when it runs.
  const std::unique_ptr<Buffer> draw_;
  bool draws_ = false;  // Whether there is one.
};

class SumOnGpu : public SumOp {
 public:
  SumOnGpu(OpContext* context, std::string name, int64_t size, bool relu)
      : context_(*context), name_(std::move(name)), size_(size), relu_(relu) {}

  absl::Status Run(int64_t samples, const void* a, const void* b,
                   void* y) override {
    return context_.Launched(name_, Sum(context_.stream(), context_.precision(),
                                        samples * size_, relu_, a, b, y));
  }

 private:
  OpContext& context_;
  const std::string name_;
  const int64_t size_;
  const bool relu_;
};

const char* NameOf(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kRelu:
      return "relu";
    case ActivationKind::kTanh:
      return "tanh";
    case ActivationKind::kSigmoid:
      return "sigmoid";
    case ActivationKind::kGelu:
      return "gelu";
  }
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<MapOp>> MakePool(OpContext* context,
                                                PoolKind kind,
                                                const PoolShape& shape,
                                                int64_t max_samples) {
  std::string name = absl::StrCat(
      kind == PoolKind::kMax ? "max_pool " : "average_pool ", shape.channels,
      "x", shape.height, "x", shape.width, ", kernel ", shape.kernel,
      " stride ", shape.stride, " padding ", shape.padding);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, shape.input_size()));
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, shape.output_size()));
  return std::make_unique<Pool>(context, std::move(name), kind, shape);
}

absl::StatusOr<std::unique_ptr<MapOp>> MakeGlobalAveragePool(
    OpContext* context, int64_t channels, int64_t pixels, int64_t max_samples) {
  std::string name =
      absl::StrCat("global_average_pool ", channels, "x", pixels);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, channels * pixels));
  return std::make_unique<GlobalAveragePool>(context, std::move(name), channels,
                                             pixels);
}

absl::StatusOr<std::unique_ptr<MapOp>> MakeActivation(OpContext* context,
                                                      ActivationKind kind,
                                                      int64_t size,
                                                      int64_t max_samples) {
  std::string name = absl::StrCat(NameOf(kind), " ", size);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, size));
  return std::make_unique<Activation>(context, std::move(name), kind, size);
}

absl::StatusOr<std::unique_ptr<DropoutOp>> MakeDropout(OpContext* context,
                                                       int64_t channels,
                                                       int64_t pixels,
                                                       double rate,
                                                       int64_t max_samples) {
  const int64_t size = channels * pixels;
  std::string name = absl::StrCat("dropout ", size);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, size));
  SLUICE_ASSIGN_OR_RETURN(auto draw,
                          context->backend().Allocate(sizeof(DropoutDraw)));
  return std::make_unique<DropoutOnGpu>(context, std::move(name), channels,
                                        pixels, rate, std::move(draw));
}

absl::StatusOr<std::unique_ptr<SumOp>> MakeSum(OpContext* context, int64_t size,
                                               bool relu, int64_t max_samples) {
  std::string name = absl::StrCat("sum ", size);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, size));
  return std::make_unique<SumOnGpu>(context, std::move(name), size, relu);
}

}  // namespace sluice::kernels::cuda
