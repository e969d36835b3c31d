#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/linear_op.h"

namespace sluice::kernels {
namespace {

using Tag = dnnl::memory::format_tag;

// oneDNN's inner product on the plain formats. Weights in oneDNN's blocked
// formats gain at most a tenth per product and cost a reorder of a quarter of
// it (measured: 64 x 784 x 256, AVX2).
struct DenseDescs {
  DenseDescs(const DenseShape& s, int64_t samples)
      : x(FloatDesc({samples, s.inputs}, Tag::ab)),
        w(FloatDesc({s.outputs, s.inputs}, Tag::ab)),
        b(s.bias ? FloatDesc({s.outputs}, Tag::a) : dnnl::memory::desc()),
        y(FloatDesc({samples, s.outputs}, Tag::ab)) {}

  dnnl::inner_product_forward::primitive_desc Forward(
      const OneDnnContext& context) const {
    return {{dnnl::prop_kind::forward_training, x, w, b, y},
            ScratchOutside(),
            context.engine};
  }
  dnnl::inner_product_backward_weights::primitive_desc ToWeights(
      const OneDnnContext& context) const {
    return {{x, w, b, y}, ScratchOutside(), context.engine, Forward(context)};
  }
  dnnl::inner_product_backward_data::primitive_desc ToInput(
      const OneDnnContext& context) const {
    return {{x, w, y}, ScratchOutside(), context.engine, Forward(context)};
  }

  dnnl::memory::desc x, w, b, y;
};

struct PreparedDense {
  PreparedDense(const OneDnnContext& context, const DenseShape& s,
                int64_t samples)
      : PreparedDense(context, DenseDescs(s, samples)) {}

  PreparedDense(const OneDnnContext& context, const DenseDescs& descs)
      : x(Wrap(descs.x, context)),
        w(Wrap(descs.w, context)),
        b(Wrap(descs.b, context)),
        y(Wrap(descs.y, context)),
        forward(descs.Forward(context)),
        to_weights(descs.ToWeights(context)),
        to_input(descs.ToInput(context)) {}

  void Forward(const OneDnnContext& context, const void* x_data,
               const float* w_data, const float* b_data, void* y_data) {
    x.set_data_handle(const_cast<void*>(x_data));
    w.set_data_handle(const_cast<float*>(w_data));
    b.set_data_handle(const_cast<float*>(b_data));
    y.set_data_handle(y_data);
    forward.Execute(context, {{DNNL_ARG_SRC, x},
                              {DNNL_ARG_WEIGHTS, w},
                              {DNNL_ARG_BIAS, b},
                              {DNNL_ARG_DST, y}});
  }

  void Backward(const OneDnnContext& context, const void* x_data,
                const float* w_data, const void* dy, void* dx, float* dw,
                float* db) {
    y.set_data_handle(const_cast<void*>(dy));
    x.set_data_handle(const_cast<void*>(x_data));
    w.set_data_handle(dw);
    b.set_data_handle(db);
    to_weights.Execute(context, {{DNNL_ARG_SRC, x},
                                 {DNNL_ARG_DIFF_DST, y},
                                 {DNNL_ARG_DIFF_WEIGHTS, w},
                                 {DNNL_ARG_DIFF_BIAS, b}});
    if (dx == nullptr) return;
    x.set_data_handle(dx);
    w.set_data_handle(const_cast<float*>(w_data));
    to_input.Execute(context, {{DNNL_ARG_DIFF_DST, y},
                               {DNNL_ARG_WEIGHTS, w},
                               {DNNL_ARG_DIFF_SRC, x}});
  }

  dnnl::memory x, w, b, y;
  Primitive<dnnl::inner_product_forward> forward;
  Primitive<dnnl::inner_product_backward_weights> to_weights;
  Primitive<dnnl::inner_product_backward_data> to_input;
};

}  // namespace

OpOr<DenseShape> MakeCpuOp(const OneDnnContext* context,
                           const DenseShape& shape, int64_t max_samples) {
  return OneDnnLinearOp<DenseShape, PreparedDense>::Create("dense", context,
                                                           shape, max_samples);
}

}  // namespace sluice::kernels
