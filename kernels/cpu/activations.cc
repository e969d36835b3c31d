#include "common/status_macros.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/threads.h"

namespace sluice::kernels {
namespace {

class CpuRelu : public MapOp {
 public:
  CpuRelu(const OneDnnContext* context, int64_t size)
      : context_(*context), size_(size) {}

  absl::Status Forward(int64_t samples, const float* x, float* y) override {
    ParallelFor(context_.threads, samples * size_, 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    y[i] = x[i] <= 0 ? 0 : x[i];  // NaN stays NaN.
                  }
                });
    return absl::OkStatus();
  }

  absl::Status Backward(int64_t samples, const float* x, const float* y,
                        const float* dy, float* dx) override {
    ParallelFor(context_.threads, samples * size_, 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    const float g = dy[i];
                    dx[i] = y[i] > 0 ? g : 0;
                  }
                });
    return absl::OkStatus();
  }

 private:
  const OneDnnContext& context_;
  const int64_t size_;
};

// oneDNN's tanh for a number of floats.
struct PreparedTanh {
  PreparedTanh(const OneDnnContext& context, int64_t size)
      : x(Wrap(FloatDesc({size}, dnnl::memory::format_tag::a), context)),
        y(Wrap(x.get_desc(), context)),
        forward({{dnnl::prop_kind::forward_inference,
                  dnnl::algorithm::eltwise_tanh, x.get_desc(), 0.0f, 0.0f},
                 context.engine}) {}

  dnnl::memory x, y;
  dnnl::eltwise_forward forward;
};

class CpuTanh : public MapOp {
 public:
  CpuTanh(const OneDnnContext* context, int64_t size)
      : context_(*context), size_(size) {}

  absl::Status Prepare(int64_t samples) {
    return CatchOneDnn(absl::StatusCode::kInvalidArgument, "tanh",
                       [&] { prepared_.For(samples * size_, context_); });
  }

  absl::Status Forward(int64_t samples, const float* x, float* y) override {
    if (samples == 0) return absl::OkStatus();
    return CatchOneDnn(absl::StatusCode::kInternal, "tanh", [&] {
      PreparedTanh& p = prepared_.For(samples * size_, context_);
      p.x.set_data_handle(const_cast<float*>(x));
      p.y.set_data_handle(y);
      p.forward.execute(context_.stream,
                        {{DNNL_ARG_SRC, p.x}, {DNNL_ARG_DST, p.y}});
    });
  }

  absl::Status Backward(int64_t samples, const float* x, const float* y,
                        const float* dy, float* dx) override {
    ParallelFor(context_.threads, samples * size_, 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    dx[i] = dy[i] * (1 - y[i] * y[i]);
                  }
                });
    return absl::OkStatus();
  }

 private:
  const OneDnnContext& context_;
  const int64_t size_;
  PerSize<PreparedTanh> prepared_;
};

}  // namespace

std::unique_ptr<MapOp> MakeCpuRelu(const OneDnnContext* context, int64_t size) {
  return std::make_unique<CpuRelu>(context, size);
}

absl::StatusOr<std::unique_ptr<MapOp>> MakeCpuTanh(const OneDnnContext* context,
                                                   int64_t size,
                                                   int64_t max_samples) {
  auto tanh = std::make_unique<CpuTanh>(context, size);
  SLUICE_RETURN_IF_ERROR(tanh->Prepare(max_samples));
  return tanh;
}

}  // namespace sluice::kernels
