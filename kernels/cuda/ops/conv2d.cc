// Conv2d by cuDNN; in 16 bits that of single pixels by cuBLASLt; what cuDNN
// cannot do by an own kernel.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/ops/dense_products.h"
#include "kernels/cuda/ops/library_op.h"
#include "kernels/cuda/ops/linear_sums.h"
#include "kernels/cuda/ops/ops.h"

namespace sluice::kernels::cuda {
namespace {

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

// How the arrays of a shape lie: images in 16 bits have channels last.
struct Layouts {
  Layouts(Precision images, Precision weights, const Conv2dShape& s,
          int64_t samples)
      : inputs{images, Is16Bit(images), samples, s.inputs, s.height * s.width},
        outputs{images, Is16Bit(images), samples, s.outputs,
                s.output_height() * s.output_width()},
        filters{weights, Is16Bit(weights), s.outputs, s.inputs,
                s.kernel * s.kernel} {}

  Images inputs, outputs, filters;
};

// Whether each output is a product of one pixel's channels. Where these are
// last the convolution is a dense layer, of which each pixel is a sample.
bool IsDenseOfPixels(Precision precision, const Conv2dShape& s) {
  return Is16Bit(precision) && s.kernel == 1 && s.stride == 1 && s.padding == 0;
}

// Such a convolution. On an H100 1024 channels to 256 run at 300 TFLOP/s; by
// the algorithm that cuDNN takes for it, at 68.
class DenseOfPixels : public Convolution {
 public:
  static absl::StatusOr<std::unique_ptr<Convolution>> Create(
      GpuDevice* gpu, ConvolutionKind kind, Precision precision,
      const Conv2dShape& shape, int64_t samples) {
    const DenseShape dense = {shape.inputs, shape.outputs};
    const int64_t pixels = samples * shape.height * shape.width;
    ProductShape product =
        kind == ConvolutionKind::kForward
            ? ForwardProduct(dense, pixels, /*fused_bias=*/false)
        : kind == ConvolutionKind::kInputGradient
            ? InputGradientProduct(dense, pixels)
            : WeightGradientProduct(dense, pixels);
    product.precision = precision;
    product.narrow = true;
    SLUICE_ASSIGN_OR_RETURN(auto prepared, gpu->PrepareProduct(product));
    return std::make_unique<DenseOfPixels>(kind, std::move(prepared));
  }
  DenseOfPixels(ConvolutionKind kind, std::unique_ptr<Product> product)
      : kind_(kind), product_(std::move(product)) {}

  int64_t workspace_bytes() const override {
    return product_->workspace_bytes();
  }
  absl::Status Run(const void* first, const void* second, void* out,
                   void* workspace) override {
    // Forward gives x, w; the product's first factor is w.
    if (kind_ == ConvolutionKind::kForward) std::swap(first, second);
    return product_->Run(first, second, /*bias=*/nullptr, out, workspace);
  }

 private:
  const ConvolutionKind kind_;
  const std::unique_ptr<Product> product_;
};

// Whether the input gradient is itself a convolution, of dy.
bool IsConvolutionOfGradient(ConvolutionKind kind, Precision precision,
                             const Conv2dShape& s) {
  return kind == ConvolutionKind::kInputGradient &&
         precision == Precision::kFp32 && s.stride == 1 && s.padding < s.kernel;
}

// Such a gradient, as dy's forward convolution with the flipped filters: the
// same sums. Of cuDNN's deterministic algorithms for FP32 those of the forward
// pass are the faster ones: of 64 to 64 channels, 3x3, an H100 takes 164 us
// where the gradient's takes 940.
class ConvolutionOfGradient : public Convolution {
 public:
  static absl::StatusOr<std::unique_ptr<Convolution>> Create(
      GpuDevice* gpu, const Conv2dShape& shape, int64_t samples) {
    const Conv2dShape of_gradient = {
        .inputs = shape.outputs,
        .height = shape.output_height(),
        .width = shape.output_width(),
        .outputs = shape.inputs,
        .kernel = shape.kernel,
        .padding = shape.kernel - 1 - shape.padding};
    SLUICE_ASSIGN_OR_RETURN(
        auto prepared,
        gpu->PrepareConvolution(ConvolutionKind::kForward, Precision::kFp32,
                                of_gradient, samples));
    return std::make_unique<ConvolutionOfGradient>(gpu, shape,
                                                   std::move(prepared));
  }
  ConvolutionOfGradient(GpuDevice* gpu, const Conv2dShape& shape,
                        std::unique_ptr<Convolution> forward)
      : gpu_(*gpu), shape_(shape), forward_(std::move(forward)) {}

  // The filters lie before the other one's workspace.
  int64_t workspace_bytes() const override {
    return FlippedBytes() + forward_->workspace_bytes();
  }
  absl::Status Run(const void* w, const void* dy, void* dx,
                   void* workspace) override {
    auto* const flipped = static_cast<float*>(workspace);
    SLUICE_RETURN_IF_ERROR(gpu_.Launched(
        "flipped filters", FlipFilters(gpu_.stream(), shape_,
                                       static_cast<const float*>(w), flipped)));
    return forward_->Run(dy, flipped, dx,
                         static_cast<char*>(workspace) + FlippedBytes());
  }

 private:
  int64_t FlippedBytes() const {
    return (shape_.weight_size() * static_cast<int64_t>(sizeof(float)) + 255) /
           256 * 256;
  }

  GpuDevice& gpu_;
  const Conv2dShape shape_;
  const std::unique_ptr<Convolution> forward_;
};

class Conv2d : public LibraryOp<Conv2dShape, Convolutions> {
 public:
  using LibraryOp::LibraryOp;

  absl::Status Forward(int64_t samples, const void* x, const float* w,
                       const float* b, void* y) override {
    if (samples == 0) return absl::OkStatus();
    SLUICE_ASSIGN_OR_RETURN(Convolutions * found, For(samples));
    const void *x_read = x, *w_read = w;
    void* y_written = y;
    const Layouts has = Given(samples), wants = Wanted(*found, samples);
    LibraryArrays arrays(&gpu_, name_);
    arrays.Read(has.inputs, wants.inputs, &x_read);
    arrays.Read(has.filters, wants.filters, &w_read);
    arrays.Write(has.outputs, wants.outputs, &y_written);
    SLUICE_RETURN_IF_ERROR(arrays.Begin(WorkspaceOf(found->forward)));
    SLUICE_RETURN_IF_ERROR(Run(ConvolutionKind::kForward, found->forward,
                               samples, x_read, w_read, y_written, arrays));
    SLUICE_RETURN_IF_ERROR(arrays.End());
    return AddBiasAndRelu(&gpu_, name_, samples, shape_.outputs, OutputPixels(),
                          b, shape_.relu, y);
  }

  absl::Status Backward(int64_t samples, const void* x, const float* w,
                        const void* dy, void* dx, float* dw,
                        float* db) override {
    if (samples == 0) {
      return ZeroGradients(&gpu_, name_, shape_.weight_size(),
                           shape_.bias_size(), dw, db);
    }
    SLUICE_ASSIGN_OR_RETURN(Convolutions * found, For(samples));
    if (db != nullptr) {
      SLUICE_RETURN_IF_ERROR(SumBiasGradient(
          &gpu_, name_, samples, shape_.outputs, OutputPixels(), dy, db));
    }
    const void *x_read = x, *w_read = dx == nullptr ? nullptr : w;
    const void* dy_read = dy;
    void *dx_written = dx, *dw_written = dw;
    const Layouts has = Given(samples), wants = Wanted(*found, samples);
    LibraryArrays arrays(&gpu_, name_);
    arrays.Read(has.inputs, wants.inputs, &x_read);
    arrays.Read(has.filters, wants.filters, &w_read);
    arrays.Read(has.outputs, wants.outputs, &dy_read);
    arrays.Write(has.filters, wants.filters, &dw_written);
    arrays.Write(has.inputs, wants.inputs, &dx_written);
    SLUICE_RETURN_IF_ERROR(
        arrays.Begin(std::max(WorkspaceOf(found->weight_gradient),
                              WorkspaceOf(found->input_gradient))));
    SLUICE_RETURN_IF_ERROR(Run(ConvolutionKind::kWeightGradient,
                               found->weight_gradient, samples, x_read, dy_read,
                               dw_written, arrays));
    if (dx != nullptr) {
      SLUICE_RETURN_IF_ERROR(Run(ConvolutionKind::kInputGradient,
                                 found->input_gradient, samples, w_read,
                                 dy_read, dx_written, arrays));
    }
    return arrays.End();
  }

 private:
  int64_t OutputPixels() const {
    return shape_.output_height() * shape_.output_width();
  }
  // As activations and weights are given.
  Layouts Given(int64_t samples) const {
    return {precision(), Precision::kFp32, shape_, samples};
  }
  // As those convolutions want them.
  Layouts Wanted(const Convolutions& found, int64_t samples) const {
    const Precision precision = found.precision;
    return {precision, precision, Stored(precision, shape_), samples};
  }

  static int64_t WorkspaceOf(const std::unique_ptr<Convolution>& convolution) {
    return convolution == nullptr ? 0 : convolution->workspace_bytes();
  }

  absl::StatusOr<std::unique_ptr<Convolution>> ByLibrary(
      ConvolutionKind kind, Precision precision, const Conv2dShape& shape,
      int64_t samples) {
    if (IsDenseOfPixels(precision, shape)) {
      auto dense =
          DenseOfPixels::Create(&gpu_, kind, precision, shape, samples);
      if (!absl::IsUnimplemented(dense.status())) return dense;
    }
    if (IsConvolutionOfGradient(kind, precision, shape)) {
      return ConvolutionOfGradient::Create(&gpu_, shape, samples);
    }
    return gpu_.PrepareConvolution(kind, precision, shape, samples);
  }

  // kUnimplemented where no library can do it in 16 bits.
  absl::StatusOr<std::unique_ptr<Convolutions>> PrepareIn(
      Precision precision, int64_t samples) override {
    auto made = std::make_unique<Convolutions>();
    made->precision = precision;
    const Conv2dShape shape = Stored(precision, shape_);
    const auto prepare = [&](ConvolutionKind kind) {
      auto convolution = ByLibrary(kind, precision, shape, samples);
      return Is16Bit(precision)
                 ? std::move(convolution)
                 : this->OrNone(std::move(convolution), "by its own kernel");
    };
    SLUICE_ASSIGN_OR_RETURN(made->forward, prepare(ConvolutionKind::kForward));
    SLUICE_ASSIGN_OR_RETURN(made->input_gradient,
                            prepare(ConvolutionKind::kInputGradient));
    SLUICE_ASSIGN_OR_RETURN(made->weight_gradient,
                            prepare(ConvolutionKind::kWeightGradient));
    return made;
  }

  // By the library, or where it cannot do the shape by its formula, of floats.
  absl::Status Run(ConvolutionKind kind,
                   const std::unique_ptr<Convolution>& convolution,
                   int64_t samples, const void* first, const void* second,
                   void* out, const LibraryArrays& arrays) {
    if (convolution != nullptr) {
      return Named(name_,
                   convolution->Run(first, second, out, arrays.workspace()));
    }
    const auto run = kind == ConvolutionKind::kForward ? DirectConvForward
                     : kind == ConvolutionKind::kInputGradient
                         ? DirectConvInputGradient
                         : DirectConvWeightGradient;
    return Launched(
        run(stream(), shape_, samples, static_cast<const float*>(first),
            static_cast<const float*>(second), static_cast<float*>(out)));
  }
};

}  // namespace

OpOr<Conv2dShape> MakeOp(GpuDevice* gpu, const Conv2dShape& shape,
                         int64_t max_samples) {
  std::string name =
      absl::StrCat("conv2d ", shape.inputs, "x", shape.height, "x", shape.width,
                   " to ", shape.outputs, ", kernel ", shape.kernel, " stride ",
                   shape.stride, " padding ", shape.padding);
  const Conv2dShape stored = Stored(gpu->precision(), shape);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, stored.input_size()));
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, stored.output_size()));
  SLUICE_RETURN_IF_ERROR(CheckSize(name, 1, stored.weight_size()));
  auto op = std::make_unique<Conv2d>(gpu, std::move(name), shape);
  SLUICE_RETURN_IF_ERROR(op->For(max_samples).status());
  return op;
}

}  // namespace sluice::kernels::cuda
