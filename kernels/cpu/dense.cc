#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/linear_op.h"

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

  void Forward(const OneDnnContext& context, const float* x_data,
               const float* w_data, const float* b_data, float* y_data) {
    x.set_data_handle(const_cast<float*>(x_data));
    w.set_data_handle(const_cast<float*>(w_data));
    b.set_data_handle(const_cast<float*>(b_data));
    y.set_data_handle(y_data);
    Execute(context, forward,
            {{DNNL_ARG_SRC, x},
             {DNNL_ARG_WEIGHTS, w},
             {DNNL_ARG_BIAS, b},
             {DNNL_ARG_DST, y}});
  }

  void Backward(const OneDnnContext& context, const float* x_data,
                const float* w_data, const float* dy, float* dx, float* dw,
                float* db) {
    y.set_data_handle(const_cast<float*>(dy));
    x.set_data_handle(const_cast<float*>(x_data));
    w.set_data_handle(dw);
    b.set_data_handle(db);
    Execute(context, to_weights,
            {{DNNL_ARG_SRC, x},
             {DNNL_ARG_DIFF_DST, y},
             {DNNL_ARG_DIFF_WEIGHTS, w},
             {DNNL_ARG_DIFF_BIAS, b}});
    if (dx == nullptr) return;
    x.set_data_handle(dx);
    w.set_data_handle(const_cast<float*>(w_data));
    Execute(context, to_input,
            {{DNNL_ARG_DIFF_DST, y},
             {DNNL_ARG_WEIGHTS, w},
             {DNNL_ARG_DIFF_SRC, x}});
  }

  dnnl::memory x, w, b, y;
  dnnl::inner_product_forward forward;
  dnnl::inner_product_backward_weights to_weights;
  dnnl::inner_product_backward_data to_input;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LinearOp>> MakeCpuDense(
    const OneDnnContext* context, const DenseShape& shape,
    int64_t max_samples) {
  return OneDnnLinearOp<DenseShape, PreparedDense>::Create("dense", context,
                                                           shape, max_samples);
}

}  // namespace sluice::kernels
