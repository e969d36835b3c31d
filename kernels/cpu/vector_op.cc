// A sum of squares is cut into parts of kPart floats, which threads share, and
// the parts are added in order: 200,000 floats are four parts, whether one
// thread has all of them or each of four has one. Within a part eight sums run
// side by side; float number i is always added to sum i % 8, those of the tail
// too.
#include <algorithm>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vector_loops.h"
#include "kernels/host_vector_op.h"
#include "kernels/optimizer_kernels.h"

SLUICE_AVX2_BEGIN
namespace sluice::kernels {
namespace {

// Floats whose squares one thread adds up: however many threads there are, the
// sum is that of the same parts.
constexpr int64_t kPart = 1 << 16;

double SquaresOfPart(int64_t n, const float* x) {
  // Side by side, so that one addition need not wait for the one before.
  constexpr int64_t kLanes = 8;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double v = x[i + lane];
      lanes[lane] += v * v;
    }
  }
  for (int64_t lane = 0; i < n; ++i, ++lane) {
    const double v = x[i];
    lanes[lane] += v * v;
  }
  double squares = 0;
  for (const double lane : lanes) squares += lane;
  return squares;
}

class CpuVectorOp : public HostVectorOp {
 public:
  CpuVectorOp(const OneDnnContext* context,
              absl::Span<const ParameterRange> ranges)
      : HostVectorOp(ranges), context_(*context) {}

 private:
  void ScaleRange(int64_t n, float a, const float* x, float* y) override {
    ParallelFor(context_.threads, n, 1, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = a * x[i];
    });
  }

  void AddRange(int64_t n, float a, const float* x, float* y) override {
    ParallelFor(context_.threads, n, 1, [=](int64_t begin, int64_t end) {
      const float one = 1;
      const float* const gradient = x + begin;
      SgdUpdate({.learning_rate = -a},
                {.gradients = absl::MakeSpan(&gradient, 1),
                 .factors = absl::MakeSpan(&one, 1)},
                end - begin, y + begin, nullptr, y + begin);
    });
  }

  double SquaresOfRange(int64_t n, const float* x) override {
    parts_.resize((n + kPart - 1) / kPart);
    ParallelFor(context_.threads, static_cast<int64_t>(parts_.size()), kPart,
                [&](int64_t begin, int64_t end) {
                  for (int64_t p = begin; p < end; ++p) {
                    parts_[p] = SquaresOfPart(std::min(kPart, n - p * kPart),
                                              x + p * kPart);
                  }
                });
    double squares = 0;
    for (const double part : parts_) squares += part;
    return squares;
  }

  const OneDnnContext& context_;
  std::vector<double> parts_;  // Written before it is read.
};

}  // namespace

std::unique_ptr<VectorOp> MakeCpuVectorOp(
    const OneDnnContext* context, absl::Span<const ParameterRange> ranges) {
  return std::make_unique<CpuVectorOp>(context, ranges);
}

}  // namespace sluice::kernels
SLUICE_AVX2_END
