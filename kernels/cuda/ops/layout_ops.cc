// What brings inputs into the order of activations, and these into row-major
// order.
#include "absl/strings/str_cat.h"
#include "kernels/cuda/kernels/casts.h"
#include "kernels/cuda/ops/gpu_op.h"
#include "kernels/cuda/ops/ops.h"

namespace sluice::kernels::cuda {
namespace {

class InputOnGpu : public GpuOp<InputShape> {
 public:
  using GpuOp::GpuOp;

  absl::Status Run(int64_t samples, const float* x, void* y) override {
    const int64_t channels = shape_.channels, pixels = shape_.pixels;
    const Images floats = {Precision::kFp32, false, samples, channels, pixels};
    const Images last = {precision(), true, samples, channels, pixels};
    return Launched(Convert(stream(), floats, x, last, y));
  }
};

class Flatten : public GpuOp<FlattenShape> {
 public:
  using GpuOp::GpuOp;

  absl::Status Forward(int64_t samples, const void* x, void* y) override {
    return Launched(
        Convert(stream(), Order(samples, true), x, Order(samples, false), y));
  }
  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy, void* dx) override {
    return Launched(
        Convert(stream(), Order(samples, false), dy, Order(samples, true), dx));
  }

 private:
  Images Order(int64_t samples, bool channels_last) const {
    return {precision(), channels_last, samples, shape_.channels,
            shape_.pixels};
  }
};

}  // namespace

OpOr<InputShape> MakeOp(GpuDevice* gpu, const InputShape& shape,
                        int64_t max_samples) {
  if (!Is16Bit(gpu->precision())) return nullptr;
  return MakeSized<InputOnGpu>(
      gpu, absl::StrCat("input ", shape.channels, "x", shape.pixels), shape,
      max_samples, {shape.channels * shape.pixels});
}

OpOr<FlattenShape> MakeOp(GpuDevice* gpu, const FlattenShape& shape,
                          int64_t max_samples) {
  const bool moves = shape.channels > 1 && shape.pixels > 1;
  if (!Is16Bit(gpu->precision()) || !moves) return nullptr;
  return MakeSized<Flatten>(
      gpu, absl::StrCat("flatten ", shape.channels, "x", shape.pixels), shape,
      max_samples, {shape.channels * shape.pixels});
}

}  // namespace sluice::kernels::cuda
