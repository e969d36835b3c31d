// Dense by cuBLASLt.
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

struct DenseProducts {
  std::unique_ptr<Product> forward;
  bool fused_bias = false;
  std::unique_ptr<Product> input_gradient;
  std::unique_ptr<Product> weight_gradient;

  Precision precision() const { return forward->shape().precision; }
};

class Dense : public LibraryOp<DenseShape, DenseProducts> {
 public:
  using LibraryOp::LibraryOp;

  absl::Status Forward(int64_t samples, const void* x, const float* w,
                       const float* b, void* y) override {
    if (samples == 0) return absl::OkStatus();
    SLUICE_ASSIGN_OR_RETURN(DenseProducts * products, For(samples));
    const Precision precision = products->precision();
    const void *x_read = x, *w_read = w;
    const void* b_read = products->fused_bias ? b : nullptr;
    void* y_written = y;
    LibraryArrays arrays(&gpu_, name_);
    arrays.Read(Inputs(samples), Inputs(samples, precision), &x_read);
    arrays.Read(Weights(), Weights(precision), &w_read);
    arrays.Read(Rows(Precision::kFp32, 1, shape_.outputs),
                Rows(precision, 1, shape_.outputs), &b_read);
    arrays.Write(Outputs(samples), Outputs(samples, precision), &y_written);
    SLUICE_RETURN_IF_ERROR(arrays.Begin(products->forward->workspace_bytes()));
    SLUICE_RETURN_IF_ERROR(Run(products->forward.get(), w_read, x_read, b_read,
                               y_written, arrays));
    SLUICE_RETURN_IF_ERROR(arrays.End());
    return AddBiasAndRelu(&gpu_, name_, samples, shape_.outputs, 1,
                          products->fused_bias ? nullptr : b, shape_.relu, y);
  }

  absl::Status Backward(int64_t samples, const void* x, const float* w,
                        const void* dy, void* dx, float* dw,
                        float* db) override {
    if (samples == 0) {
      return ZeroGradients(&gpu_, name_, shape_.weight_size(),
                           shape_.bias_size(), dw, db);
    }
    SLUICE_ASSIGN_OR_RETURN(DenseProducts * products, For(samples));
    if (db != nullptr) {
      SLUICE_RETURN_IF_ERROR(
          SumBiasGradient(&gpu_, name_, samples, shape_.outputs, 1, dy, db));
    }
    const Precision precision = products->precision();
    const void *x_read = x, *w_read = dx == nullptr ? nullptr : w;
    const void* dy_read = dy;
    void *dw_written = dw, *dx_written = dx;
    LibraryArrays arrays(&gpu_, name_);
    arrays.Read(Inputs(samples), Inputs(samples, precision), &x_read);
    arrays.Read(Weights(), Weights(precision), &w_read);
    arrays.Read(Outputs(samples), Outputs(samples, precision), &dy_read);
    arrays.Write(Weights(), Weights(), &dw_written);
    arrays.Write(Inputs(samples), Inputs(samples, precision), &dx_written);
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
  absl::StatusOr<std::unique_ptr<DenseProducts>> PrepareIn(
      Precision precision, int64_t samples) override {
    auto made = std::make_unique<DenseProducts>();
    const auto prepare = [&](ProductShape product, bool narrow) {
      product.precision = precision;
      product.narrow = narrow;
      return gpu_.PrepareProduct(product);
    };
    const bool narrow = Is16Bit(precision);
    if (shape_.bias) {
      SLUICE_ASSIGN_OR_RETURN(
          made->forward,
          this->OrNone(prepare(ForwardProduct(shape_, samples, true), narrow),
                       "its bias added by a kernel of its own"));
      made->fused_bias = made->forward != nullptr;
    }
    if (made->forward == nullptr) {
      SLUICE_ASSIGN_OR_RETURN(
          made->forward,
          prepare(ForwardProduct(shape_, samples, false), narrow));
    }
    SLUICE_ASSIGN_OR_RETURN(
        made->input_gradient,
        prepare(InputGradientProduct(shape_, samples), narrow));
    SLUICE_ASSIGN_OR_RETURN(
        made->weight_gradient,
        prepare(WeightGradientProduct(shape_, samples), /*narrow=*/false));
    return made;
  }

  absl::Status Run(Product* product, const void* a, const void* b,
                   const void* bias, void* d, const LibraryArrays& arrays) {
    return Named(name_, product->Run(a, b, bias, d, arrays.workspace()));
  }

  // The arrays as activations and weights lie, or in a precision.
  Images Inputs(int64_t samples) const { return Inputs(samples, precision()); }
  Images Inputs(int64_t samples, Precision precision) const {
    return Rows(precision, samples, shape_.inputs);
  }
  Images Outputs(int64_t samples) const {
    return Outputs(samples, precision());
  }
  Images Outputs(int64_t samples, Precision precision) const {
    return Rows(precision, samples, shape_.outputs);
  }
  Images Weights(Precision precision = Precision::kFp32) const {
    return Rows(precision, shape_.outputs, shape_.inputs);
  }
};

}  // namespace

OpOr<DenseShape> MakeOp(GpuDevice* gpu, const DenseShape& shape,
                        int64_t max_samples) {
  std::string name =
      absl::StrCat("dense ", shape.inputs, " to ", shape.outputs);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, shape.inputs));
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, shape.outputs));
  SLUICE_RETURN_IF_ERROR(CheckSize(name, shape.outputs, shape.inputs));
  auto op = std::make_unique<Dense>(gpu, std::move(name), shape);
  SLUICE_RETURN_IF_ERROR(op->For(max_samples).status());
  return op;
}

}  // namespace sluice::kernels::cuda
