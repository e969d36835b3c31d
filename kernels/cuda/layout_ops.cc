// What brings inputs into the order of activations, and these into row-major
// order.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/ops.h"

namespace sluice::kernels::cuda {
namespace {

// What converts between two orders of images.
class Conversion {
 public:
  Conversion(OpContext* context, std::string name, int64_t channels,
             int64_t pixels)
      : context_(*context),
        name_(std::move(name)),
        channels_(channels),
        pixels_(pixels) {}

  Images Floats(int64_t samples) const {
    return {Precision::kFp32, false, samples, channels_, pixels_};
  }
  Images RowMajor(int64_t samples) const {
    return {context_.precision(), false, samples, channels_, pixels_};
  }
  Images ChannelsLast(int64_t samples) const {
    return {context_.precision(), true, samples, channels_, pixels_};
  }
  absl::Status Run(const Images& from, const void* x, const Images& to,
                   void* y) const {
    return context_.Launched(name_, Convert(context_.stream(), from, x, to, y));
  }

 private:
  OpContext& context_;
  const std::string name_;
  const int64_t channels_;
  const int64_t pixels_;
};

class InputOnGpu : public InputOp {
 public:
  explicit InputOnGpu(Conversion conversion)
      : conversion_(std::move(conversion)) {}

  absl::Status Run(int64_t samples, const float* x, void* y) override {
    return conversion_.Run(conversion_.Floats(samples), x,
                           conversion_.ChannelsLast(samples), y);
  }

 private:
  const Conversion conversion_;
};

class Flatten : public MapOp {
 public:
  explicit Flatten(Conversion conversion)
      : conversion_(std::move(conversion)) {}

  absl::Status Forward(int64_t samples, const void* x, void* y) override {
    return conversion_.Run(conversion_.ChannelsLast(samples), x,
                           conversion_.RowMajor(samples), y);
  }
  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy, void* dx) override {
    return conversion_.Run(conversion_.RowMajor(samples), dy,
                           conversion_.ChannelsLast(samples), dx);
  }

 private:
  const Conversion conversion_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<InputOp>> MakeOp(OpContext* context,
                                                const InputShape& shape,
                                                int64_t max_samples) {
  if (!Is16Bit(context->precision())) return nullptr;
  std::string name = absl::StrCat("input ", shape.channels, "x", shape.pixels);
  SLUICE_RETURN_IF_ERROR(
      CheckSize(name, max_samples, shape.channels * shape.pixels));
  return std::make_unique<InputOnGpu>(
      Conversion(context, std::move(name), shape.channels, shape.pixels));
}

absl::StatusOr<std::unique_ptr<MapOp>> MakeOp(OpContext* context,
                                              const FlattenShape& shape,
                                              int64_t max_samples) {
  const bool moves = shape.channels > 1 && shape.pixels > 1;
  if (!Is16Bit(context->precision()) || !moves) return nullptr;
  std::string name =
      absl::StrCat("flatten ", shape.channels, "x", shape.pixels);
  SLUICE_RETURN_IF_ERROR(
      CheckSize(name, max_samples, shape.channels * shape.pixels));
  return std::make_unique<Flatten>(
      Conversion(context, std::move(name), shape.channels, shape.pixels));
}

}  // namespace sluice::kernels::cuda
