// Pooling, activations, dropout and sums.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/ops.h"

namespace sluice::kernels::cuda {
namespace {

class Activation : public MapOp {
 public:
  Activation(OpContext* context, std::string name, const ActivationShape& shape)
      : context_(*context), name_(std::move(name)), shape_(shape) {}

  absl::Status Forward(int64_t samples, const void* x, void* y) override {
    return context_.Launched(
        name_, ActivationForward(context_.stream(), context_.precision(),
                                 shape_.kind, samples * shape_.size, x, y));
  }
  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy, void* dx) override {
    const void* seen = shape_.kind == ActivationKind::kGelu ? x : y;
    return context_.Launched(
        name_,
        ActivationBackward(context_.stream(), context_.precision(), shape_.kind,
                           samples * shape_.size, seen, dy, dx));
  }

 private:
  OpContext& context_;
  const std::string name_;
  const ActivationShape shape_;
};

class Pool : public MapOp {
 public:
  Pool(OpContext* context, std::string name, const PoolShape& shape)
      : context_(*context), name_(std::move(name)), shape_(shape) {}

  absl::Status Forward(int64_t samples, const void* x, void* y) override {
    const auto run =
        shape_.kind == PoolKind::kMax ? MaxPoolForward : AveragePoolForward;
    return context_.Launched(name_, run(context_.stream(), context_.precision(),
                                        shape_, samples, x, y));
  }
  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy, void* dx) override {
    const Stream stream = context_.stream();
    const Precision precision = context_.precision();
    return context_.Launched(
        name_,
        shape_.kind == PoolKind::kMax
            ? MaxPoolBackward(stream, precision, shape_, samples, x, dy, dx)
            : AveragePoolBackward(stream, precision, shape_, samples, dy, dx));
  }

 private:
  OpContext& context_;
  const std::string name_;
  const PoolShape shape_;
};

class GlobalAveragePool : public MapOp {
 public:
  GlobalAveragePool(OpContext* context, std::string name,
                    const GlobalAveragePoolShape& shape)
      : context_(*context), name_(std::move(name)), shape_(shape) {}

  absl::Status Forward(int64_t samples, const void* x, void* y) override {
    return context_.Launched(
        name_, GlobalAveragePoolForward(context_.stream(), context_.precision(),
                                        samples, shape_.channels, shape_.pixels,
                                        x, y));
  }
  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy, void* dx) override {
    return context_.Launched(
        name_, GlobalAveragePoolBackward(
                   context_.stream(), context_.precision(), samples,
                   shape_.channels, shape_.pixels, dy, dx));
  }

 private:
  OpContext& context_;
  const std::string name_;
  const GlobalAveragePoolShape shape_;
};

class DropoutOnGpu : public DropoutOp {
 public:
  // `draw` is device memory.
  DropoutOnGpu(OpContext* context, std::string name, const DropoutShape& shape,
               std::unique_ptr<Buffer> draw)
      : context_(*context),
        name_(std::move(name)),
        shape_(shape),
        draw_(std::move(draw)) {}

  absl::Status SetDraw(std::optional<Draw> draw) override {
    draws_ = draw.has_value();
    if (!draws_) return absl::OkStatus();
    const DropoutDraw numbers = {
        draw->key, static_cast<uint64_t>(draw->first * shape_.size())};
    return context_.Launched(
        name_, StoreDraw(context_.stream(), numbers, DrawOnGpu()));
  }

  absl::Status Run(int64_t samples, const void* x, void* y) override {
    const Precision precision = context_.precision();
    if (draws_) {
      return context_.Launched(
          name_, Dropout(context_.stream(), precision, samples, shape_.channels,
                         shape_.pixels, shape_.rate, DrawOnGpu(), x, y));
    }
    if (x == y || samples == 0) return absl::OkStatus();
    const int64_t bytes = samples * shape_.size() * BytesOf(precision);
    return Named(name_, context_.backend().Copy(x, y, bytes));
  }

 private:
  DropoutDraw* DrawOnGpu() { return static_cast<DropoutDraw*>(draw_->data()); }

  OpContext& context_;
  const std::string name_;
  const DropoutShape shape_;
  // A recording reads the draw of when it runs.
  const std::unique_ptr<Buffer> draw_;
  bool draws_ = false;  // Whether there is one.
};

class SumOnGpu : public SumOp {
 public:
  SumOnGpu(OpContext* context, std::string name, const SumShape& shape)
      : context_(*context), name_(std::move(name)), shape_(shape) {}

  absl::Status Run(int64_t samples, const void* a, const void* b,
                   void* y) override {
    return context_.Launched(name_,
                             Sum(context_.stream(), context_.precision(),
                                 samples * shape_.size, shape_.relu, a, b, y));
  }

 private:
  OpContext& context_;
  const std::string name_;
  const SumShape shape_;
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

absl::StatusOr<std::unique_ptr<MapOp>> MakeOp(OpContext* context,
                                              const PoolShape& shape,
                                              int64_t max_samples) {
  std::string name = absl::StrCat(
      shape.kind == PoolKind::kMax ? "max_pool " : "average_pool ",
      shape.channels, "x", shape.height, "x", shape.width, ", kernel ",
      shape.kernel, " stride ", shape.stride, " padding ", shape.padding);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, shape.input_size()));
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, shape.output_size()));
  return std::make_unique<Pool>(context, std::move(name), shape);
}

absl::StatusOr<std::unique_ptr<MapOp>> MakeOp(
    OpContext* context, const GlobalAveragePoolShape& shape,
    int64_t max_samples) {
  std::string name =
      absl::StrCat("global_average_pool ", shape.channels, "x", shape.pixels);
  SLUICE_RETURN_IF_ERROR(
      CheckSize(name, max_samples, shape.channels * shape.pixels));
  return std::make_unique<GlobalAveragePool>(context, std::move(name), shape);
}

absl::StatusOr<std::unique_ptr<MapOp>> MakeOp(OpContext* context,
                                              const ActivationShape& shape,
                                              int64_t max_samples) {
  std::string name = absl::StrCat(NameOf(shape.kind), " ", shape.size);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, shape.size));
  return std::make_unique<Activation>(context, std::move(name), shape);
}

absl::StatusOr<std::unique_ptr<DropoutOp>> MakeOp(OpContext* context,
                                                  const DropoutShape& shape,
                                                  int64_t max_samples) {
  std::string name = absl::StrCat("dropout ", shape.size());
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, shape.size()));
  SLUICE_ASSIGN_OR_RETURN(auto draw,
                          context->backend().Allocate(sizeof(DropoutDraw)));
  return std::make_unique<DropoutOnGpu>(context, std::move(name), shape,
                                        std::move(draw));
}

absl::StatusOr<std::unique_ptr<SumOp>> MakeOp(OpContext* context,
                                              const SumShape& shape,
                                              int64_t max_samples) {
  std::string name = absl::StrCat("sum ", shape.size);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, shape.size));
  return std::make_unique<SumOnGpu>(context, std::move(name), shape);
}

}  // namespace sluice::kernels::cuda
