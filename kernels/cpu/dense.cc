#include <algorithm>

#include "common/status_macros.h"
#include "kernels/cpu/cpu_ops.h"

namespace sluice::kernels {
namespace {

using Tag = dnnl::memory::format_tag;

// oneDNN's inner product on the plain formats. Weights in oneDNN's blocked
// formats gain at most a tenth per product and cost a reorder of a quarter of
// it (measured: 64 x 784 x 256, AVX2).
struct PreparedDense {
  PreparedDense(const OneDnnContext& context, const DenseShape& s,
                int64_t samples)
      : x(Wrap(FloatDesc({samples, s.inputs}, Tag::ab), context)),
        w(Wrap(FloatDesc({s.outputs, s.inputs}, Tag::ab), context)),
        b(Wrap(FloatDesc({s.outputs}, Tag::a), context)),
        y(Wrap(FloatDesc({samples, s.outputs}, Tag::ab), context)) {
    const dnnl::memory::desc bias =
        s.bias ? b.get_desc() : dnnl::memory::desc();
    const dnnl::inner_product_forward::primitive_desc hint(
        {dnnl::prop_kind::forward_training, x.get_desc(), w.get_desc(), bias,
         y.get_desc()},
        context.engine);
    forward = dnnl::inner_product_forward(hint);
    to_weights = dnnl::inner_product_backward_weights(
        {{x.get_desc(), w.get_desc(), bias, y.get_desc()},
         context.engine,
         hint});
    to_input = dnnl::inner_product_backward_data(
        {{x.get_desc(), w.get_desc(), y.get_desc()}, context.engine, hint});
  }

  dnnl::memory x, w, b, y;
  dnnl::inner_product_forward forward;
  dnnl::inner_product_backward_weights to_weights;
  dnnl::inner_product_backward_data to_input;
};

class CpuDense : public LinearOp {
 public:
  CpuDense(const OneDnnContext* context, const DenseShape& shape)
      : context_(*context), shape_(shape) {}

  absl::Status Prepare(int64_t samples) {
    return CatchOneDnn(absl::StatusCode::kInvalidArgument, "dense",
                       [&] { prepared_.For(samples, context_, shape_); });
  }

  absl::Status Forward(int64_t samples, const float* x, const float* w,
                       const float* b, float* y) override {
    if (samples == 0) return absl::OkStatus();
    return CatchOneDnn(absl::StatusCode::kInternal, "dense", [&] {
      PreparedDense& p = prepared_.For(samples, context_, shape_);
      p.x.set_data_handle(const_cast<float*>(x));
      p.w.set_data_handle(const_cast<float*>(w));
      p.b.set_data_handle(const_cast<float*>(b));
      p.y.set_data_handle(y);
      Execute(p.forward, {{DNNL_ARG_SRC, p.x},
                          {DNNL_ARG_WEIGHTS, p.w},
                          {DNNL_ARG_BIAS, p.b},
                          {DNNL_ARG_DST, p.y}});
    });
  }

  absl::Status Backward(int64_t samples, const float* x, const float* w,
                        const float* dy, float* dx, float* dw,
                        float* db) override {
    if (samples == 0) {
      std::fill_n(dw, shape_.weight_size(), 0.0f);
      if (db != nullptr) std::fill_n(db, shape_.bias_size(), 0.0f);
      return absl::OkStatus();
    }
    return CatchOneDnn(absl::StatusCode::kInternal, "dense", [&] {
      PreparedDense& p = prepared_.For(samples, context_, shape_);
      p.y.set_data_handle(const_cast<float*>(dy));
      p.x.set_data_handle(const_cast<float*>(x));
      p.w.set_data_handle(dw);
      p.b.set_data_handle(db);
      Execute(p.to_weights, {{DNNL_ARG_SRC, p.x},
                             {DNNL_ARG_DIFF_DST, p.y},
                             {DNNL_ARG_DIFF_WEIGHTS, p.w},
                             {DNNL_ARG_DIFF_BIAS, p.b}});
      if (dx == nullptr) return;
      p.x.set_data_handle(dx);
      p.w.set_data_handle(const_cast<float*>(w));
      Execute(p.to_input, {{DNNL_ARG_DIFF_DST, p.y},
                           {DNNL_ARG_WEIGHTS, p.w},
                           {DNNL_ARG_DIFF_SRC, p.x}});
    });
  }

 private:
  void Execute(const dnnl::primitive& primitive,
               const std::unordered_map<int, dnnl::memory>& arguments) {
    primitive.execute(context_.stream, arguments);
  }

  const OneDnnContext& context_;
  const DenseShape shape_;
  PerSize<PreparedDense> prepared_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LinearOp>> MakeCpuDense(
    const OneDnnContext* context, const DenseShape& shape,
    int64_t max_samples) {
  auto dense = std::make_unique<CpuDense>(context, shape);
  SLUICE_RETURN_IF_ERROR(dense->Prepare(max_samples));
  return dense;
}

}  // namespace sluice::kernels
