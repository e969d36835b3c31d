// Relu is a loop of our own: oneDNN's makes 0 of NaN, and a layer that has
// diverged would go unseen. So is gelu (gelu.h), which takes oneDNN two to
// three times as long. The forward of tanh and sigmoid is oneDNN's, prepared
// for each number of floats; their backward looks at y and dy at the same index
// only, so it may write over dy.
#include "common/status_macros.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/gelu.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vector_loops.h"

SLUICE_AVX2_BEGIN
namespace sluice::kernels {
namespace {

class CpuRelu : public MapOp {
 public:
  CpuRelu(const OneDnnContext* context, int64_t size)
      : context_(*context), size_(size) {}

  absl::Status Forward(int64_t samples, const void* x, void* y) override {
    CpuReluForward(context_, samples * size_, AsFloats(x), AsFloats(y));
    return absl::OkStatus();
  }

  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy, void* dx) override {
    const float* const out = AsFloats(y);
    const float* const above = AsFloats(dy);
    float* const to = AsFloats(dx);
    ParallelFor(context_.threads, samples * size_, 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    const float g = above[i];
                    to[i] = out[i] > 0 ? g : 0;
                  }
                });
    return absl::OkStatus();
  }

 private:
  const OneDnnContext& context_;
  const int64_t size_;
};

// oneDNN's formula `algorithm` for a number of floats.
struct PreparedFormula {
  PreparedFormula(const OneDnnContext& context, dnnl::algorithm algorithm,
                  int64_t size)
      : x(Wrap(FloatDesc({size}, dnnl::memory::format_tag::a), context)),
        y(Wrap(x.get_desc(), context)),
        forward({{dnnl::prop_kind::forward_inference, algorithm, x.get_desc(),
                  0.0f, 0.0f},
                 context.engine}) {}

  dnnl::memory x, y;
  dnnl::eltwise_forward forward;
};

// An activation whose forward is oneDNN's. T gives its name, the formula, and
// the derivative from y.
template <typename T>
class CpuFormula : public MapOp {
 public:
  CpuFormula(const OneDnnContext* context, int64_t size)
      : context_(*context), size_(size) {}

  absl::Status Prepare(int64_t samples) {
    return CatchOneDnn(absl::StatusCode::kInvalidArgument, T::kName, [&] {
      prepared_.For(samples * size_, context_, T::kAlgorithm);
    });
  }

  absl::Status Forward(int64_t samples, const void* x, void* y) override {
    if (samples == 0) return absl::OkStatus();
    return CatchOneDnn(absl::StatusCode::kInternal, T::kName, [&] {
      PreparedFormula& p =
          prepared_.For(samples * size_, context_, T::kAlgorithm);
      p.x.set_data_handle(const_cast<void*>(x));
      p.y.set_data_handle(y);
      p.forward.execute(context_.stream,
                        {{DNNL_ARG_SRC, p.x}, {DNNL_ARG_DST, p.y}});
    });
  }

  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy, void* dx) override {
    const float* const out = AsFloats(y);
    const float* const above = AsFloats(dy);
    float* const to = AsFloats(dx);
    ParallelFor(context_.threads, samples * size_, 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    to[i] = above[i] * T::Derivative(out[i]);
                  }
                });
    return absl::OkStatus();
  }

 private:
  const OneDnnContext& context_;
  const int64_t size_;
  PerSize<PreparedFormula> prepared_;
};

struct Tanh {
  static constexpr char kName[] = "tanh";
  static constexpr auto kAlgorithm = dnnl::algorithm::eltwise_tanh;
  static float Derivative(float y) { return 1 - y * y; }
};

struct Sigmoid {
  static constexpr char kName[] = "sigmoid";
  static constexpr auto kAlgorithm = dnnl::algorithm::eltwise_logistic;
  static float Derivative(float y) { return y * (1 - y); }
};

class CpuGelu : public MapOp {
 public:
  CpuGelu(const OneDnnContext* context, int64_t size)
      : context_(*context), size_(size), wide_(ComputesWithAvx512()) {}

  absl::Status Forward(int64_t samples, const void* x, void* y) override {
    ParallelFor(context_.threads, samples * size_, 1,
                [&](int64_t begin, int64_t end) {
                  GeluForward(wide_, end - begin, AsFloats(x) + begin,
                              AsFloats(y) + begin);
                });
    return absl::OkStatus();
  }

  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy, void* dx) override {
    ParallelFor(context_.threads, samples * size_, 1,
                [&](int64_t begin, int64_t end) {
                  GeluBackward(wide_, end - begin, AsFloats(x) + begin,
                               AsFloats(dy) + begin, AsFloats(dx) + begin);
                });
    return absl::OkStatus();
  }

 private:
  const OneDnnContext& context_;
  const int64_t size_;
  const bool wide_;
};

// Prepares an operation for its largest size, so that a shape that oneDNN
// cannot do is refused at once.
template <typename Op>
absl::StatusOr<std::unique_ptr<MapOp>> MakePrepared(
    const OneDnnContext* context, int64_t size, int64_t max_samples) {
  auto op = std::make_unique<Op>(context, size);
  SLUICE_RETURN_IF_ERROR(op->Prepare(max_samples));
  return op;
}

}  // namespace

void CpuReluForward(const OneDnnContext& context, int64_t size, const float* x,
                    float* y) {
  ParallelFor(context.threads, size, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = ReluOf(x[i]);
  });
}

OpOr<ActivationShape> MakeCpuOp(const OneDnnContext* context,
                                const ActivationShape& shape,
                                int64_t max_samples) {
  const int64_t size = shape.size;
  switch (shape.kind) {
    case ActivationKind::kRelu:
      return std::make_unique<CpuRelu>(context, size);
    case ActivationKind::kTanh:
      return MakePrepared<CpuFormula<Tanh>>(context, size, max_samples);
    case ActivationKind::kSigmoid:
      return MakePrepared<CpuFormula<Sigmoid>>(context, size, max_samples);
    case ActivationKind::kGelu:
      break;
  }
  return std::make_unique<CpuGelu>(context, size);
}

}  // namespace sluice::kernels
SLUICE_AVX2_END
