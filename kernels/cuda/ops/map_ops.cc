// Pooling, activations, dropout and sums.

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/ops/gpu_op.h"
#include "kernels/cuda/ops/ops.h"

namespace sluice::kernels::cuda {
namespace {

class Activation : public GpuOp<ActivationShape> {
 public:
  using GpuOp::GpuOp;

  absl::Status Forward(int64_t samples, const void* x, void* y) override {
    return Launched(ActivationForward(stream(), precision(), shape_.kind,
                                      samples * shape_.size, x, y));
  }
  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy, void* dx) override {
    const void* seen = shape_.kind == ActivationKind::kGelu ? x : y;
    return Launched(ActivationBackward(stream(), precision(), shape_.kind,
                                       samples * shape_.size, seen, dy, dx));
  }
};

class Pool : public GpuOp<PoolShape> {
 public:
  using GpuOp::GpuOp;

  absl::Status Forward(int64_t samples, const void* x, void* y) override {
    const auto run =
        shape_.kind == PoolKind::kMax ? MaxPoolForward : AveragePoolForward;
    return Launched(run(stream(), precision(), shape_, samples, x, y));
  }
  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy, void* dx) override {
    return Launched(
        shape_.kind == PoolKind::kMax
            ? MaxPoolBackward(stream(), precision(), shape_, samples, x, dy, dx)
            : AveragePoolBackward(stream(), precision(), shape_, samples, dy,
                                  dx));
  }
};

class GlobalAveragePool : public GpuOp<GlobalAveragePoolShape> {
 public:
  using GpuOp::GpuOp;

  absl::Status Forward(int64_t samples, const void* x, void* y) override {
    return Launched(GlobalAveragePoolForward(
        stream(), precision(), samples, shape_.channels, shape_.pixels, x, y));
  }
  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy, void* dx) override {
    return Launched(GlobalAveragePoolBackward(stream(), precision(), samples,
                                              shape_.channels, shape_.pixels,
                                              dy, dx));
  }
};

class DropoutOnGpu : public GpuOp<DropoutShape> {
 public:
  using GpuOp::GpuOp;

  // To be called once.
  absl::Status Prepare() {
    SLUICE_ASSIGN_OR_RETURN(draw_, gpu_.Allocate(sizeof(DropoutDraw)));
    return absl::OkStatus();
  }

  absl::Status SetDraw(std::optional<Draw> draw) override {
    draws_ = draw.has_value();
    if (!draws_) return absl::OkStatus();
    const DropoutDraw numbers = {
        draw->key, static_cast<uint64_t>(draw->first * shape_.size())};
    return Launched(StoreDraw(stream(), numbers, DrawOnGpu()));
  }

  absl::Status Run(int64_t samples, const void* x, void* y) override {
    if (draws_) {
      return Launched(Dropout(stream(), precision(), samples, shape_.channels,
                              shape_.pixels, shape_.rate, DrawOnGpu(), x, y));
    }
    if (x == y || samples == 0) return absl::OkStatus();
    const int64_t bytes = samples * shape_.size() * BytesOf(precision());
    return Named(name_, gpu_.Copy(x, y, bytes));
  }

 private:
  DropoutDraw* DrawOnGpu() { return static_cast<DropoutDraw*>(draw_->data()); }

  // In device memory: a recording reads the draw of when it runs.
  std::unique_ptr<Buffer> draw_;
  bool draws_ = false;  // Whether there is one.
};

class SumOnGpu : public GpuOp<SumShape> {
 public:
  using GpuOp::GpuOp;

  absl::Status Run(int64_t samples, const void* a, const void* b,
                   void* y) override {
    return Launched(Sum(stream(), precision(), samples * shape_.size,
                        shape_.relu, a, b, y));
  }
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

OpOr<PoolShape> MakeOp(GpuDevice* gpu, const PoolShape& shape,
                       int64_t max_samples) {
  return MakeSized<Pool>(
      gpu,
      absl::StrCat(shape.kind == PoolKind::kMax ? "max_pool " : "average_pool ",
                   shape.channels, "x", shape.height, "x", shape.width,
                   ", kernel ", shape.kernel, " stride ", shape.stride,
                   " padding ", shape.padding),
      shape, max_samples, {shape.input_size(), shape.output_size()});
}

OpOr<GlobalAveragePoolShape> MakeOp(GpuDevice* gpu,
                                    const GlobalAveragePoolShape& shape,
                                    int64_t max_samples) {
  return MakeSized<GlobalAveragePool>(
      gpu,
      absl::StrCat("global_average_pool ", shape.channels, "x", shape.pixels),
      shape, max_samples, {shape.channels * shape.pixels});
}

OpOr<ActivationShape> MakeOp(GpuDevice* gpu, const ActivationShape& shape,
                             int64_t max_samples) {
  return MakeSized<Activation>(
      gpu, absl::StrCat(NameOf(shape.kind), " ", shape.size), shape,
      max_samples, {shape.size});
}

OpOr<DropoutShape> MakeOp(GpuDevice* gpu, const DropoutShape& shape,
                          int64_t max_samples) {
  SLUICE_ASSIGN_OR_RETURN(
      auto op,
      MakeSized<DropoutOnGpu>(gpu, absl::StrCat("dropout ", shape.size()),
                              shape, max_samples, {shape.size()}));
  SLUICE_RETURN_IF_ERROR(op->Prepare());
  return op;
}

OpOr<SumShape> MakeOp(GpuDevice* gpu, const SumShape& shape,
                      int64_t max_samples) {
  return MakeSized<SumOnGpu>(gpu, absl::StrCat("sum ", shape.size), shape,
                             max_samples, {shape.size});
}

}  // namespace sluice::kernels::cuda
