#include <algorithm>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/linear_op.h"
#include "kernels/cpu/vector_loops.h"

SLUICE_AVX2_BEGIN
namespace sluice::kernels {
namespace {

using Tag = dnnl::memory::format_tag;

// oneDNN's direct convolution. On plain NCHW it falls back to im2col and
// sgemm, so the operands are brought into its own formats and back. Measured
// on the two convolutions of LeNet, 64 samples, AVX2, in microseconds:
//
//                     NCHW       NHWC      oneDNN's choice
//   forward         517, 619   441, 380      265, 384
//   to weights     1094, 686   492, 318     1409, 411
//   to input              809        483           476
//   reorder NCHW <-> blocked: 79, 10
//
// Hence forward in oneDNN's choice; backward in NHWC, where one reorder of dy
// serves both products. Weights are in oneDNN's choice everywhere (small).
struct ConvDescs {
  ConvDescs(const Conv2dShape& s, int64_t samples)
      : x({samples, s.inputs, s.height, s.width}),
        w({s.outputs, s.inputs, s.kernel, s.kernel}),
        y({samples, s.outputs, s.output_height(), s.output_width()}),
        stride({s.stride, s.stride}),
        padding({s.padding, s.padding}),
        bias(s.bias ? FloatDesc({s.outputs}, Tag::a) : dnnl::memory::desc()) {}

  dnnl::convolution_forward::primitive_desc Forward(
      const OneDnnContext& context, Tag tag) const {
    return {
        {dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
         FloatDesc(x, tag), FloatDesc(w, Tag::any), bias, FloatDesc(y, tag),
         stride, padding, padding},
        ScratchOutside(),
        context.engine};
  }
  dnnl::convolution_backward_weights::primitive_desc ToWeights(
      const OneDnnContext& context, Tag tag) const {
    return {{dnnl::algorithm::convolution_direct, FloatDesc(x, tag),
             FloatDesc(w, Tag::any), bias, FloatDesc(y, tag), stride, padding,
             padding},
            ScratchOutside(),
            context.engine,
            Forward(context, tag)};
  }
  dnnl::convolution_backward_data::primitive_desc ToInput(
      const OneDnnContext& context, Tag tag) const {
    return {
        {dnnl::algorithm::convolution_direct, FloatDesc(x, tag),
         FloatDesc(w, Tag::any), FloatDesc(y, tag), stride, padding, padding},
        ScratchOutside(),
        context.engine,
        Forward(context, tag)};
  }

  dnnl::memory::dims x, w, y, stride, padding;
  dnnl::memory::desc bias;
};

// The primitives for one number of samples and the operands in their formats.
struct PreparedConv2d {
  PreparedConv2d(const OneDnnContext& context, const Conv2dShape& s,
                 int64_t samples)
      : PreparedConv2d(context, ConvDescs(s, samples)) {}

  PreparedConv2d(const OneDnnContext& context, const ConvDescs& descs)
      : PreparedConv2d(context, descs, descs.Forward(context, Tag::any),
                       descs.ToWeights(context, Tag::nhwc),
                       descs.ToInput(context, Tag::nhwc)) {}

  PreparedConv2d(const OneDnnContext& context, const ConvDescs& descs,
                 const dnnl::convolution_forward::primitive_desc& f,
                 const dnnl::convolution_backward_weights::primitive_desc& tw,
                 const dnnl::convolution_backward_data::primitive_desc& ti)
      : forward(f),
        to_weights(tw),
        to_input(ti),
        x(FloatDesc(descs.x, Tag::nchw), f.src_desc(), context),
        w(FloatDesc(descs.w, Tag::oihw), f.weights_desc(), context),
        y(FloatDesc(descs.y, Tag::nchw), f.dst_desc(), context),
        x_backward(FloatDesc(descs.x, Tag::nchw), tw.src_desc(), context),
        w_backward(FloatDesc(descs.w, Tag::oihw), ti.weights_desc(), context),
        dx(FloatDesc(descs.x, Tag::nchw), ti.diff_src_desc(), context),
        dw(FloatDesc(descs.w, Tag::oihw), tw.diff_weights_desc(), context),
        dy(FloatDesc(descs.y, Tag::nchw), tw.diff_dst_desc(), context),
        bias(Wrap(descs.bias, context)) {}

  void Forward(const OneDnnContext& context, const void* x_data,
               const float* w_data, const float* b_data, void* y_data) {
    bias.set_data_handle(const_cast<float*>(b_data));
    forward.Execute(context, {{DNNL_ARG_SRC, x.In(x_data, context)},
                              {DNNL_ARG_WEIGHTS, w.In(w_data, context)},
                              {DNNL_ARG_BIAS, bias},
                              {DNNL_ARG_DST, y.Out(y_data)}});
    y.Done(context);
  }

  void Backward(const OneDnnContext& context, const void* x_data,
                const float* w_data, const void* dy_data, void* dx_data,
                float* dw_data, float* db_data) {
    bias.set_data_handle(db_data);
    dnnl::memory& dy_memory = dy.In(dy_data, context);
    to_weights.Execute(context, {{DNNL_ARG_SRC, x_backward.In(x_data, context)},
                                 {DNNL_ARG_DIFF_DST, dy_memory},
                                 {DNNL_ARG_DIFF_WEIGHTS, dw.Out(dw_data)},
                                 {DNNL_ARG_DIFF_BIAS, bias}});
    dw.Done(context);
    if (dx_data == nullptr) return;
    to_input.Execute(context,
                     {{DNNL_ARG_DIFF_DST, dy_memory},
                      {DNNL_ARG_WEIGHTS, w_backward.In(w_data, context)},
                      {DNNL_ARG_DIFF_SRC, dx.Out(dx_data)}});
    dx.Done(context);
  }

  Primitive<dnnl::convolution_forward> forward;
  Primitive<dnnl::convolution_backward_weights> to_weights;
  Primitive<dnnl::convolution_backward_data> to_input;
  Operand x, w, y;
  Operand x_backward, w_backward, dx, dw, dy;
  dnnl::memory bias;
};

// A filter of one pixel with a stride as one without, on the pixels that it
// looks at: the backward of oneDNN 2.6 writes beyond its own scratch for such
// a filter with a stride (found with valgrind: 3 channels of 6 x 6 to 4,
// stride 2, AVX2).
class CpuStrided1x1 : public LinearOp {
 public:
  CpuStrided1x1(const Conv2dShape& shape, std::unique_ptr<LinearOp> dense)
      : s_(shape), dense_(std::move(dense)) {}

  absl::Status Forward(int64_t samples, const void* x, const float* w,
                       const float* b, void* y) override {
    Gather(samples, AsFloats(x));
    return dense_->Forward(samples, x_.data(), w, b, y);
  }

  absl::Status Backward(int64_t samples, const void* x, const float* w,
                        const void* dy, void* dx_out, float* dw,
                        float* db) override {
    float* const dx = AsFloats(dx_out);
    Gather(samples, AsFloats(x));
    dx_.resize(x_.size());
    SLUICE_RETURN_IF_ERROR(
        dense_->Backward(samples, x_.data(), w, dy,
                         dx == nullptr ? nullptr : dx_.data(), dw, db));
    if (dx == nullptr) return absl::OkStatus();
    std::fill_n(dx, samples * s_.input_size(), 0.0f);
    ForEachPixel(samples,
                 [&](int64_t all, int64_t kept) { dx[all] = dx_[kept]; });
    return absl::OkStatus();
  }

 private:
  // f(index into x, index among those that are looked at), but for pixels of
  // the padding.
  template <typename F>
  void ForEachPixel(int64_t samples, F f) const {
    int64_t kept = 0;
    for (int64_t plane = 0; plane < samples * s_.inputs; ++plane) {
      for (int64_t i = 0; i < s_.output_height(); ++i) {
        const int64_t row = i * s_.stride - s_.padding;
        for (int64_t j = 0; j < s_.output_width(); ++j, ++kept) {
          const int64_t column = j * s_.stride - s_.padding;
          if (row < 0 || row >= s_.height) continue;
          if (column < 0 || column >= s_.width) continue;
          f((plane * s_.height + row) * s_.width + column, kept);
        }
      }
    }
  }
  void Gather(int64_t samples, const float* x) {
    const int64_t pixels = s_.output_height() * s_.output_width();
    x_.assign(samples * s_.inputs * pixels, 0.0f);
    ForEachPixel(samples,
                 [&](int64_t all, int64_t kept) { x_[kept] = x[all]; });
  }

  const Conv2dShape s_;
  const std::unique_ptr<LinearOp> dense_;
  std::vector<float> x_, dx_;  // Scratch, written before it is read.
};

}  // namespace

OpOr<Conv2dShape> MakeCpuOp(const OneDnnContext* context,
                            const Conv2dShape& shape, int64_t max_samples) {
  if (shape.kernel == 1 && shape.stride > 1) {
    Conv2dShape looked_at = shape;
    looked_at.height = shape.output_height();
    looked_at.width = shape.output_width();
    looked_at.stride = 1;
    looked_at.padding = 0;
    SLUICE_ASSIGN_OR_RETURN(auto dense,
                            MakeCpuOp(context, looked_at, max_samples));
    return std::make_unique<CpuStrided1x1>(shape, std::move(dense));
  }
  return OneDnnLinearOp<Conv2dShape, PreparedConv2d>::Create(
      "conv2d", context, shape, max_samples);
}

}  // namespace sluice::kernels
SLUICE_AVX2_END
