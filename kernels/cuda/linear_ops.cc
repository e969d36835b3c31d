// Dense by cuBLASLt, conv2d by cuDNN; what is neither by own kernels.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/dense_products.h"
#include "kernels/cuda/ops.h"

namespace sluice::kernels::cuda {
namespace {

// A library's prepared work, or nullptr where it cannot do the shape.
template <typename T>
absl::StatusOr<std::unique_ptr<T>> OrNone(
    absl::StatusOr<std::unique_ptr<T>> prepared) {
  if (absl::IsUnimplemented(prepared.status())) return std::unique_ptr<T>();
  return prepared;
}

// db from dy (samples, channels, pixels).
absl::Status SumBiasGradient(OpContext* context, const std::string& name,
                             int64_t samples, int64_t channels, int64_t pixels,
                             const float* dy, float* db) {
  auto parts = context->Scratch(ChannelSumParts(samples, channels, pixels) *
                                static_cast<int64_t>(sizeof(Pair)));
  if (!parts.ok()) return Named(name, parts.status());
  return context->Launched(
      name, BiasGradient(context->stream(), samples, channels, pixels, dy,
                         reinterpret_cast<Pair*>(*parts), db));
}

// A batch of none has no gradient.
absl::Status ZeroGradients(OpContext* context, const std::string& name,
                           int64_t weights, int64_t biases, float* dw,
                           float* db) {
  Backend& backend = context->backend();
  SLUICE_RETURN_IF_ERROR(Named(name, backend.Zero(dw, weights * 4)));
  if (db == nullptr) return absl::OkStatus();
  return Named(name, backend.Zero(db, biases * 4));
}

struct DenseProducts {
  std::unique_ptr<Product> forward;
  bool fused_bias = false;
  std::unique_ptr<Product> input_gradient;
  std::unique_ptr<Product> weight_gradient;
};

class Dense : public LinearOp {
 public:
  Dense(OpContext* context, std::string name, const DenseShape& shape)
      : context_(*context), name_(std::move(name)), shape_(shape) {}

  absl::StatusOr<DenseProducts*> For(int64_t samples) {
    auto found = prepared_.For(samples, [this](int64_t n) { return Make(n); });
    if (!found.ok()) return Named(name_, found.status());
    return found;
  }

  absl::Status Forward(int64_t samples, const float* x, const float* w,
                       const float* b, float* y) override {
    if (samples == 0) return absl::OkStatus();
    SLUICE_ASSIGN_OR_RETURN(DenseProducts * products, For(samples));
    float* const whole = y;
    SLUICE_RETURN_IF_ERROR(
        Run(products->forward.get(), samples, {&w, shape_.weight_size()},
            {&x, samples * shape_.inputs}, products->fused_bias ? b : nullptr,
            {&y, samples * shape_.outputs}));
    if (b == nullptr || products->fused_bias) return absl::OkStatus();
    return context_.Launched(name_, AddBias(context_.stream(), samples,
                                            shape_.outputs, 1, b, whole));
  }

  absl::Status Backward(int64_t samples, const float* x, const float* w,
                        const float* dy, float* dx, float* dw,
                        float* db) override {
    if (samples == 0) {
      return ZeroGradients(&context_, name_, shape_.weight_size(),
                           shape_.bias_size(), dw, db);
    }
    SLUICE_ASSIGN_OR_RETURN(DenseProducts * products, For(samples));
    const int64_t outputs = samples * shape_.outputs;
    const int64_t inputs = samples * shape_.inputs;
    if (db != nullptr) {
      SLUICE_RETURN_IF_ERROR(SumBiasGradient(&context_, name_, samples,
                                             shape_.outputs, 1, dy, db));
    }
    const float* dy_of_dw = dy;
    SLUICE_RETURN_IF_ERROR(Run(products->weight_gradient.get(), samples,
                               {&x, inputs}, {&dy_of_dw, outputs}, nullptr,
                               {&dw, shape_.weight_size()}));
    if (dx == nullptr) return absl::OkStatus();
    return Run(products->input_gradient.get(), samples,
               {&w, shape_.weight_size()}, {&dy, outputs}, nullptr,
               {&dx, inputs});
  }

 private:
  template <typename T>
  struct Array {
    T* data;
    int64_t floats;
  };

  absl::StatusOr<std::unique_ptr<DenseProducts>> Make(int64_t samples) {
    auto made = std::make_unique<DenseProducts>();
    Backend& backend = context_.backend();
    if (shape_.bias) {
      SLUICE_ASSIGN_OR_RETURN(made->forward,
                              OrNone(backend.PrepareProduct(
                                  ForwardProduct(shape_, samples, true))));
      made->fused_bias = made->forward != nullptr;
    }
    if (made->forward == nullptr) {
      SLUICE_ASSIGN_OR_RETURN(
          made->forward,
          backend.PrepareProduct(ForwardProduct(shape_, samples, false)));
    }
    SLUICE_ASSIGN_OR_RETURN(
        made->input_gradient,
        backend.PrepareProduct(InputGradientProduct(shape_, samples)));
    SLUICE_ASSIGN_OR_RETURN(
        made->weight_gradient,
        backend.PrepareProduct(WeightGradientProduct(shape_, samples)));
    return made;
  }

  absl::Status Run(Product* product, int64_t samples, Array<const float*> a,
                   Array<const float*> b, const float* bias, Array<float*> d) {
    AlignedArrays arrays(&context_);
    arrays.Read(a.data, a.floats);
    arrays.Read(b.data, b.floats);
    arrays.Read(&bias, shape_.outputs);
    arrays.Write(d.data, d.floats);
    SLUICE_RETURN_IF_ERROR(
        Named(name_, arrays.Begin(product->workspace_bytes())));
    SLUICE_RETURN_IF_ERROR(Named(
        name_,
        product->Run(*a.data, *b.data, bias, *d.data, arrays.workspace())));
    return Named(name_, arrays.End());
  }

  OpContext& context_;
  const std::string name_;
  const DenseShape shape_;
  PerSamples<DenseProducts> prepared_;
};

// Each nullptr where cuDNN cannot do the shape.
struct Convolutions {
  std::unique_ptr<Convolution> forward, input_gradient, weight_gradient;
};

class Conv2d : public LinearOp {
 public:
  Conv2d(OpContext* context, std::string name, const Conv2dShape& shape)
      : context_(*context),
        name_(std::move(name)),
        shape_(shape),
        pixels_(shape.output_height() * shape.output_width()) {}

  absl::StatusOr<Convolutions*> For(int64_t samples) {
    auto found = prepared_.For(samples, [this](int64_t n) { return Make(n); });
    if (!found.ok()) return Named(name_, found.status());
    return found;
  }

  absl::Status Forward(int64_t samples, const float* x, const float* w,
                       const float* b, float* y) override {
    if (samples == 0) return absl::OkStatus();
    SLUICE_ASSIGN_OR_RETURN(Convolutions * found, For(samples));
    if (found->forward == nullptr) {
      SLUICE_RETURN_IF_ERROR(context_.Launched(
          name_,
          DirectConvForward(context_.stream(), shape_, samples, x, w, y)));
    } else {
      SLUICE_RETURN_IF_ERROR(
          Run(found->forward.get(), x, samples * shape_.input_size(), w,
              shape_.weight_size(), y, samples * shape_.output_size()));
    }
    if (b == nullptr) return absl::OkStatus();
    return context_.Launched(name_, AddBias(context_.stream(), samples,
                                            shape_.outputs, pixels_, b, y));
  }

  absl::Status Backward(int64_t samples, const float* x, const float* w,
                        const float* dy, float* dx, float* dw,
                        float* db) override {
    if (samples == 0) {
      return ZeroGradients(&context_, name_, shape_.weight_size(),
                           shape_.bias_size(), dw, db);
    }
    SLUICE_ASSIGN_OR_RETURN(Convolutions * found, For(samples));
    if (db != nullptr) {
      SLUICE_RETURN_IF_ERROR(SumBiasGradient(&context_, name_, samples,
                                             shape_.outputs, pixels_, dy, db));
    }
    if (found->weight_gradient == nullptr) {
      SLUICE_RETURN_IF_ERROR(context_.Launched(
          name_, DirectConvWeightGradient(context_.stream(), shape_, samples, x,
                                          dy, dw)));
    } else {
      SLUICE_RETURN_IF_ERROR(
          Run(found->weight_gradient.get(), x, samples * shape_.input_size(),
              dy, samples * shape_.output_size(), dw, shape_.weight_size()));
    }
    if (dx == nullptr) return absl::OkStatus();
    if (found->input_gradient == nullptr) {
      return context_.Launched(
          name_, DirectConvInputGradient(context_.stream(), shape_, samples, w,
                                         dy, dx));
    }
    return Run(found->input_gradient.get(), w, shape_.weight_size(), dy,
               samples * shape_.output_size(), dx,
               samples * shape_.input_size());
  }

 private:
  absl::StatusOr<std::unique_ptr<Convolutions>> Make(int64_t samples) {
    auto made = std::make_unique<Convolutions>();
    const auto prepare = [&](ConvolutionKind kind) {
      return OrNone(
          context_.backend().PrepareConvolution(kind, shape_, samples));
    };
    SLUICE_ASSIGN_OR_RETURN(made->forward, prepare(ConvolutionKind::kForward));
    SLUICE_ASSIGN_OR_RETURN(made->input_gradient,
                            prepare(ConvolutionKind::kInputGradient));
    SLUICE_ASSIGN_OR_RETURN(made->weight_gradient,
                            prepare(ConvolutionKind::kWeightGradient));
    return made;
  }

  absl::Status Run(Convolution* convolution, const float* first,
                   int64_t first_floats, const float* second,
                   int64_t second_floats, float* out, int64_t out_floats) {
    AlignedArrays arrays(&context_);
    arrays.Read(&first, first_floats);
    arrays.Read(&second, second_floats);
    arrays.Write(&out, out_floats);
    SLUICE_RETURN_IF_ERROR(
        Named(name_, arrays.Begin(convolution->workspace_bytes())));
    SLUICE_RETURN_IF_ERROR(
        Named(name_, convolution->Run(first, second, out, arrays.workspace())));
    return Named(name_, arrays.End());
  }

  OpContext& context_;
  const std::string name_;
  const Conv2dShape shape_;
  const int64_t pixels_;  // Of the output.
  PerSamples<Convolutions> prepared_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LinearOp>> MakeDense(OpContext* context,
                                                    const DenseShape& shape,
                                                    int64_t max_samples) {
  std::string name =
      absl::StrCat("dense ", shape.inputs, " to ", shape.outputs);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, shape.inputs));
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, shape.outputs));
  SLUICE_RETURN_IF_ERROR(CheckSize(name, shape.outputs, shape.inputs));
  auto op = std::make_unique<Dense>(context, std::move(name), shape);
  SLUICE_RETURN_IF_ERROR(op->For(max_samples).status());
  return op;
}

absl::StatusOr<std::unique_ptr<LinearOp>> MakeConv2d(OpContext* context,
                                                     const Conv2dShape& shape,
                                                     int64_t max_samples) {
  std::string name =
      absl::StrCat("conv2d ", shape.inputs, "x", shape.height, "x", shape.width,
                   " to ", shape.outputs, ", kernel ", shape.kernel, " stride ",
                   shape.stride, " padding ", shape.padding);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, shape.input_size()));
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, shape.output_size()));
  SLUICE_RETURN_IF_ERROR(CheckSize(name, 1, shape.weight_size()));
  auto op = std::make_unique<Conv2d>(context, std::move(name), shape);
  SLUICE_RETURN_IF_ERROR(op->For(max_samples).status());
  return op;
}

}  // namespace sluice::kernels::cuda
