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

// What follows a product: y += b, unless that is nullptr, and relu, in one pass
// over y (samples, channels, pixels). cuBLASLt's own relu does not say what it
// makes of NaN.
absl::Status AddBiasAndRelu(OpContext* context, const std::string& name,
                            int64_t samples, int64_t channels, int64_t pixels,
                            const float* b, bool relu, float* y) {
  if (b != nullptr) {
    return context->Launched(name, AddBias(context->stream(), samples, channels,
                                           pixels, b, relu, y));
  }
  if (!relu) return absl::OkStatus();
  return context->Launched(
      name, ActivationForward(context->stream(), ActivationKind::kRelu,
                              samples * channels * pixels, y, y));
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

  Precision precision() const { return forward->shape().precision; }
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
    const int64_t outputs = samples * shape_.outputs;
    const void *x_read = x, *w_read = w;
    const void* b_read = products->fused_bias ? b : nullptr;
    void* y_written = y;
    LibraryArrays arrays(&context_, name_);
    arrays.Read(products->precision(), samples * shape_.inputs, &x_read);
    arrays.Read(products->precision(), shape_.weight_size(), &w_read);
    arrays.Read(Precision::kFp32, shape_.outputs, &b_read);
    arrays.Write(outputs, &y_written);
    SLUICE_RETURN_IF_ERROR(arrays.Begin(products->forward->workspace_bytes()));
    SLUICE_RETURN_IF_ERROR(Run(products->forward.get(), w_read, x_read, b_read,
                               y_written, arrays));
    SLUICE_RETURN_IF_ERROR(arrays.End());
    return AddBiasAndRelu(&context_, name_, samples, shape_.outputs, 1,
                          products->fused_bias ? nullptr : b, shape_.relu, y);
  }

  absl::Status Backward(int64_t samples, const float* x, const float* w,
                        const float* dy, float* dx, float* dw,
                        float* db) override {
    if (samples == 0) {
      return ZeroGradients(&context_, name_, shape_.weight_size(),
                           shape_.bias_size(), dw, db);
    }
    SLUICE_ASSIGN_OR_RETURN(DenseProducts * products, For(samples));
    if (db != nullptr) {
      SLUICE_RETURN_IF_ERROR(SumBiasGradient(&context_, name_, samples,
                                             shape_.outputs, 1, dy, db));
    }
    const int64_t inputs = samples * shape_.inputs;
    const void *x_read = x, *w_read = dx == nullptr ? nullptr : w;
    const void* dy_read = dy;
    void *dw_written = dw, *dx_written = dx;
    LibraryArrays arrays(&context_, name_);
    arrays.Read(products->precision(), inputs, &x_read);
    arrays.Read(products->precision(), shape_.weight_size(), &w_read);
    arrays.Read(products->precision(), samples * shape_.outputs, &dy_read);
    arrays.Write(shape_.weight_size(), &dw_written);
    arrays.Write(inputs, &dx_written);
    SLUICE_RETURN_IF_ERROR(
        arrays.Begin(std::max(products->weight_gradient->workspace_bytes(),
                              products->input_gradient->workspace_bytes())));
    SLUICE_RETURN_IF_ERROR(Run(products->weight_gradient.get(), x_read, dy_read,
                               nullptr, dw_written, arrays));
    if (dx != nullptr) {
      SLUICE_RETURN_IF_ERROR(Run(products->input_gradient.get(), w_read,
                                 dy_read, nullptr, dx_written, arrays));
    }
    return arrays.End();
  }

 private:
  absl::StatusOr<std::unique_ptr<DenseProducts>> Make(int64_t samples) {
    return InPrecisionOrFp32(context_.precision(), [&](Precision precision) {
      return MakeIn(precision, samples);
    });
  }

  absl::StatusOr<std::unique_ptr<DenseProducts>> MakeIn(Precision precision,
                                                        int64_t samples) {
    auto made = std::make_unique<DenseProducts>();
    const auto prepare = [&](ProductShape product) {
      product.precision = precision;
      return context_.backend().PrepareProduct(product);
    };
    if (shape_.bias) {
      SLUICE_ASSIGN_OR_RETURN(
          made->forward,
          OrNone(prepare(ForwardProduct(shape_, samples, true))));
      made->fused_bias = made->forward != nullptr;
    }
    if (made->forward == nullptr) {
      SLUICE_ASSIGN_OR_RETURN(made->forward,
                              prepare(ForwardProduct(shape_, samples, false)));
    }
    SLUICE_ASSIGN_OR_RETURN(made->input_gradient,
                            prepare(InputGradientProduct(shape_, samples)));
    SLUICE_ASSIGN_OR_RETURN(made->weight_gradient,
                            prepare(WeightGradientProduct(shape_, samples)));
    return made;
  }

  absl::Status Run(Product* product, const void* a, const void* b,
                   const void* bias, void* d, const LibraryArrays& arrays) {
    return Named(name_,
                 product->Run(a, b, static_cast<const float*>(bias),
                              static_cast<float*>(d), arrays.workspace()));
  }

  OpContext& context_;
  const std::string name_;
  const DenseShape shape_;
  PerSamples<DenseProducts> prepared_;
};

// Of one precision. In FP32 each is nullptr where cuDNN cannot do the shape.
struct Convolutions {
  Precision precision;
  std::unique_ptr<Convolution> forward, input_gradient, weight_gradient;
};

// A count of channels as convolutions in 16 bits want it: tensor cores take
// them 16 bytes at a time.
int64_t Padded(int64_t channels) { return (channels + 7) / 8 * 8; }

// The shape that the library computes in `precision`.
Conv2dShape Stored(Precision precision, Conv2dShape shape) {
  if (!Is16Bit(precision)) return shape;
  shape.inputs = Padded(shape.inputs);
  shape.outputs = Padded(shape.outputs);
  return shape;
}

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
      LibraryArrays arrays(&context_, name_);
      const void *x_read = x, *w_read = w;
      void* y_written = y;
      arrays.Read(found->precision, Inputs(samples), &x_read);
      arrays.Read(found->precision, Filters(), &w_read);
      arrays.Write(found->precision, Outputs(samples), &y_written);
      SLUICE_RETURN_IF_ERROR(arrays.Begin(found->forward->workspace_bytes()));
      SLUICE_RETURN_IF_ERROR(
          Run(found->forward.get(), x_read, w_read, y_written, arrays));
      SLUICE_RETURN_IF_ERROR(arrays.End());
    }
    return AddBiasAndRelu(&context_, name_, samples, shape_.outputs, pixels_, b,
                          shape_.relu, y);
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
    SLUICE_RETURN_IF_ERROR(LibraryGradients(found, samples, x, w, dy, dx, dw));
    if (found->weight_gradient == nullptr) {
      SLUICE_RETURN_IF_ERROR(context_.Launched(
          name_, DirectConvWeightGradient(context_.stream(), shape_, samples, x,
                                          dy, dw)));
    }
    if (dx == nullptr || found->input_gradient != nullptr) {
      return absl::OkStatus();
    }
    return context_.Launched(
        name_,
        DirectConvInputGradient(context_.stream(), shape_, samples, w, dy, dx));
  }

 private:
  // The arrays, and how they are padded in 16 bits.
  ImageShape Inputs(int64_t samples) const {
    return {samples, shape_.inputs, shape_.height * shape_.width, samples,
            Padded(shape_.inputs)};
  }
  ImageShape Filters() const {
    return {shape_.outputs, shape_.inputs, shape_.kernel * shape_.kernel,
            Padded(shape_.outputs), Padded(shape_.inputs)};
  }
  ImageShape Outputs(int64_t samples) const {
    return {samples, shape_.outputs, pixels_, samples, Padded(shape_.outputs)};
  }

  // Those of the gradients that the library computes.
  absl::Status LibraryGradients(Convolutions* found, int64_t samples,
                                const float* x, const float* w, const float* dy,
                                float* dx, float* dw) {
    Convolution* const of_w = found->weight_gradient.get();
    Convolution* const of_x =
        dx == nullptr ? nullptr : found->input_gradient.get();
    const void *x_read = x, *w_read = w, *dy_read = dy;
    void *dx_written = dx, *dw_written = dw;
    LibraryArrays arrays(&context_, name_);
    int64_t workspace = 0;
    if (of_w != nullptr) {
      arrays.Read(found->precision, Inputs(samples), &x_read);
      arrays.Write(found->precision, Filters(), &dw_written);
      workspace = of_w->workspace_bytes();
    }
    if (of_x != nullptr) {
      arrays.Read(found->precision, Filters(), &w_read);
      arrays.Write(found->precision, Inputs(samples), &dx_written);
      workspace = std::max(workspace, of_x->workspace_bytes());
    }
    if (of_w != nullptr || of_x != nullptr) {
      arrays.Read(found->precision, Outputs(samples), &dy_read);
    }
    SLUICE_RETURN_IF_ERROR(arrays.Begin(workspace));
    if (of_w != nullptr) {
      SLUICE_RETURN_IF_ERROR(Run(of_w, x_read, dy_read, dw_written, arrays));
    }
    if (of_x != nullptr) {
      SLUICE_RETURN_IF_ERROR(Run(of_x, w_read, dy_read, dx_written, arrays));
    }
    return arrays.End();
  }

  absl::StatusOr<std::unique_ptr<Convolutions>> Make(int64_t samples) {
    return InPrecisionOrFp32(context_.precision(), [&](Precision precision) {
      return MakeIn(precision, samples);
    });
  }

  // kUnimplemented where cuDNN cannot do it in 16 bits.
  absl::StatusOr<std::unique_ptr<Convolutions>> MakeIn(Precision precision,
                                                       int64_t samples) {
    auto made = std::make_unique<Convolutions>();
    made->precision = precision;
    const Conv2dShape shape = Stored(precision, shape_);
    const auto prepare = [&](ConvolutionKind kind) {
      auto convolution = context_.backend().PrepareConvolution(kind, precision,
                                                               shape, samples);
      return Is16Bit(precision) ? std::move(convolution)
                                : OrNone(std::move(convolution));
    };
    SLUICE_ASSIGN_OR_RETURN(made->forward, prepare(ConvolutionKind::kForward));
    SLUICE_ASSIGN_OR_RETURN(made->input_gradient,
                            prepare(ConvolutionKind::kInputGradient));
    SLUICE_ASSIGN_OR_RETURN(made->weight_gradient,
                            prepare(ConvolutionKind::kWeightGradient));
    return made;
  }

  absl::Status Run(Convolution* convolution, const void* first,
                   const void* second, void* out, const LibraryArrays& arrays) {
    return Named(name_,
                 convolution->Run(first, second, out, arrays.workspace()));
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
  const Conv2dShape stored = Stored(context->precision(), shape);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, stored.input_size()));
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, stored.output_size()));
  SLUICE_RETURN_IF_ERROR(CheckSize(name, 1, stored.weight_size()));
  auto op = std::make_unique<Conv2d>(context, std::move(name), shape);
  SLUICE_RETURN_IF_ERROR(op->For(max_samples).status());
  return op;
}

}  // namespace sluice::kernels::cuda
