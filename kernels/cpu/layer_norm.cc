#include <cmath>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/lane_sums.h"
#include "kernels/cpu/threads.h"
#include "kernels/float_operations.h"

namespace sluice::kernels {
namespace {

// What x of a row becomes before gamma: (x - mean) inverse.
struct Row {
  float mean;
  float inverse;  // Of the deviation.
};

class CpuLayerNorm : public FloatLayerNormOp {
 public:
  CpuLayerNorm(const OneDnnContext* context, const LayerNormShape& shape)
      : context_(*context),
        s_(shape),
        gamma_sums_(shape.features),
        beta_sums_(shape.features) {}

  absl::Status Forward(int64_t samples, const float* x, const float* gamma,
                       const float* beta, float* y) override {
    const int64_t features = s_.features;
    ForEachRow(samples, [&](int64_t row) {
      const float* from = x + row * features;
      float* to = y + row * features;
      const Row of = StatisticsOf(from);
      for (int64_t c = 0; c < features; ++c) {
        to[c] = gamma[c] * ((from[c] - of.mean) * of.inverse) + beta[c];
      }
    });
    return absl::OkStatus();
  }

  absl::Status Backward(int64_t samples, const float* x, const float* gamma,
                        const float* dy, float* dx, float* dgamma,
                        float* dbeta) override {
    rows_.resize(samples * s_.rows);
    const int64_t features = s_.features;
    ForEachRow(samples, [&](int64_t row) {
      const int64_t at = row * features;
      rows_[row] = StatisticsOf(x + at);
      if (dx != nullptr) {
        InputGradient(rows_[row], x + at, gamma, dy + at, dx + at);
      }
    });
    // Each thread has some of the features and adds up all rows in order.
    ParallelFor(context_.threads, features, 2 * samples * s_.rows,
                [&](int64_t begin, int64_t end) {
                  SumRows(x, dy, begin, end);
                  for (int64_t c = begin; c < end; ++c) {
                    dgamma[c] = static_cast<float>(gamma_sums_[c]);
                    dbeta[c] = static_cast<float>(beta_sums_[c]);
                  }
                });
    return absl::OkStatus();
  }

 private:
  template <typename F>
  void ForEachRow(int64_t samples, F f) const {
    ParallelFor(context_.threads, samples * s_.rows, 4 * s_.features,
                [&](int64_t begin, int64_t end) {
                  for (int64_t row = begin; row < end; ++row) f(row);
                });
  }

  Row StatisticsOf(const float* x) const {
    const auto m = static_cast<double>(s_.features);
    const auto mean = static_cast<float>(
        SumInLanes(s_.features, [=](int64_t i) { return x[i]; }) / m);
    const double squares = SumInLanes(s_.features, [=](int64_t i) {
      const float d = x[i] - mean;
      return d * d;
    });
    return {mean, static_cast<float>(1 / std::sqrt(squares / m + s_.epsilon))};
  }

  void InputGradient(const Row& of, const float* x, const float* gamma,
                     const float* dy, float* dx) const {
    const auto m = static_cast<double>(s_.features);
    const double sum =
        SumInLanes(s_.features, [=](int64_t i) { return gamma[i] * dy[i]; });
    const double product = SumInLanes(s_.features, [=](int64_t i) {
      return gamma[i] * dy[i] * ((x[i] - of.mean) * of.inverse);
    });
    const auto mean = static_cast<float>(sum / m);
    const auto slope = static_cast<float>(product / m);
    for (int64_t c = 0; c < s_.features; ++c) {
      const float h = (x[c] - of.mean) * of.inverse;
      dx[c] = of.inverse * ((gamma[c] * dy[c] - mean) - h * slope);
    }
  }

  // Sums of the features [begin, end), after rows_ has been written.
  void SumRows(const float* x, const float* dy, int64_t begin, int64_t end) {
    double* const gamma = gamma_sums_.data();
    double* const beta = beta_sums_.data();
    std::fill(gamma + begin, gamma + end, 0.0);
    std::fill(beta + begin, beta + end, 0.0);
    for (size_t row = 0; row < rows_.size(); ++row) {
      const Row of = rows_[row];
      const int64_t at = static_cast<int64_t>(row) * s_.features;
      for (int64_t c = begin; c < end; ++c) {
        const float d = dy[at + c];
        gamma[c] += d * ((x[at + c] - of.mean) * of.inverse);
        beta[c] += d;
      }
    }
  }

  const OneDnnContext& context_;
  const LayerNormShape s_;

  // Scratch, written by every call before it is read.
  std::vector<Row> rows_;
  std::vector<double> gamma_sums_;
  std::vector<double> beta_sums_;
};

}  // namespace

std::unique_ptr<LayerNormOp> MakeCpuOp(const OneDnnContext* context,
                                       const LayerNormShape& shape, int64_t) {
  return std::make_unique<CpuLayerNorm>(context, shape);
}

}  // namespace sluice::kernels
