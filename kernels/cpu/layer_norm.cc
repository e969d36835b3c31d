#include <cmath>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/lane_sums.h"
#include "kernels/cpu/threads.h"

namespace sluice::kernels {
namespace {

// What x of a group becomes before gamma: (x - mean) inverse.
struct Group {
  float mean;
  float inverse;  // Of the deviation.
};

// Groups lie one behind the other; layer norm's are rows.
class CpuLayerNorm : public LayerNormOp {
 public:
  CpuLayerNorm(const OneDnnContext* context, const LayerNormShape& shape)
      : context_(*context),
        s_(shape),
        gamma_sums_(shape.features),
        beta_sums_(shape.features) {}

  absl::Status Forward(int64_t samples, const void* x, const float* gamma,
                       const float* beta, void* y) override {
    ForEachGroup(samples, [&](int64_t group) {
      const float* from = AsFloats(x) + group * s_.group_size();
      float* to = AsFloats(y) + group * s_.group_size();
      const Group of = StatisticsOf(from);
      ForEachNumber(group, [=](int64_t i, int64_t c) {
        to[i] = gamma[c] * ((from[i] - of.mean) * of.inverse) + beta[c];
      });
    });
    return absl::OkStatus();
  }

  absl::Status Backward(int64_t samples, const void* x_in, const float* gamma,
                        const void* dy_in, void* dx, float* dgamma,
                        float* dbeta) override {
    const float* const x = AsFloats(x_in);
    const float* const dy = AsFloats(dy_in);
    groups_.resize(samples * s_.rows * s_.groups);
    ForEachGroup(samples, [&](int64_t group) {
      const int64_t at = group * s_.group_size();
      groups_[group] = StatisticsOf(x + at);
      if (dx != nullptr) {
        InputGradient(group, x + at, gamma, dy + at, AsFloats(dx) + at);
      }
    });
    // Each thread has some of the features and adds up all rows in order.
    ParallelFor(context_.threads, s_.features,
                2 * samples * s_.rows * s_.pixels,
                [&](int64_t begin, int64_t end) {
                  std::fill(&gamma_sums_[begin], &gamma_sums_[end], 0.0);
                  std::fill(&beta_sums_[begin], &beta_sums_[end], 0.0);
                  for (int64_t row = 0; row < samples * s_.rows; ++row) {
                    AddRow(row, x, dy, begin, end);
                  }
                  for (int64_t c = begin; c < end; ++c) {
                    dgamma[c] = static_cast<float>(gamma_sums_[c]);
                    dbeta[c] = static_cast<float>(beta_sums_[c]);
                  }
                });
    return absl::OkStatus();
  }

 private:
  template <typename F>
  void ForEachGroup(int64_t samples, F f) const {
    ParallelFor(context_.threads, samples * s_.rows * s_.groups,
                4 * s_.group_size(), [&](int64_t begin, int64_t end) {
                  for (int64_t group = begin; group < end; ++group) f(group);
                });
  }

  // Of the group's channels.
  int64_t FirstChannel(int64_t group) const {
    return group % s_.groups * s_.group_features();
  }

  // Calls f(i, c) for each number i of the group, and its channel c.
  template <typename F>
  void ForEachNumber(int64_t group, F f) const {
    const int64_t channels = s_.group_features(), first = FirstChannel(group);
    if (s_.pixels == 1) {  // A loop over channels, which vectors do.
      for (int64_t c = 0; c < channels; ++c) f(c, first + c);
      return;
    }
    for (int64_t i = 0, c = 0; c < channels; ++c) {
      for (const int64_t end = i + s_.pixels; i < end; ++i) f(i, first + c);
    }
  }

  // The sum of term(i, c) over them.
  template <typename F>
  double Sum(int64_t group, F term) const {
    const int64_t channels = s_.group_features(), first = FirstChannel(group);
    if (s_.pixels == 1) {
      return SumInLanes(channels,
                        [=](int64_t c) { return term(c, first + c); });
    }
    double sum = 0;
    for (int64_t c = 0; c < channels; ++c) {
      sum += SumInLanes(s_.pixels, [=, this](int64_t p) {
        return term(c * s_.pixels + p, first + c);
      });
    }
    return sum;
  }

  Group StatisticsOf(const float* x) const {
    const auto m = static_cast<double>(s_.group_size());
    const auto mean = static_cast<float>(
        SumInLanes(s_.group_size(), [=](int64_t i) { return x[i]; }) / m);
    const double squares = SumInLanes(s_.group_size(), [=](int64_t i) {
      const float d = x[i] - mean;
      return d * d;
    });
    return {mean, static_cast<float>(1 / std::sqrt(squares / m + s_.epsilon))};
  }

  void InputGradient(int64_t group, const float* x, const float* gamma,
                     const float* dy, float* dx) const {
    const Group of = groups_[group];
    const auto m = static_cast<double>(s_.group_size());
    const double sum =
        Sum(group, [=](int64_t i, int64_t c) { return gamma[c] * dy[i]; });
    const double product = Sum(group, [=](int64_t i, int64_t c) {
      return gamma[c] * dy[i] * ((x[i] - of.mean) * of.inverse);
    });
    const auto mean = static_cast<float>(sum / m);
    const auto slope = static_cast<float>(product / m);
    ForEachNumber(group, [=](int64_t i, int64_t c) {
      const float h = (x[i] - of.mean) * of.inverse;
      dx[i] = of.inverse * ((gamma[c] * dy[i] - mean) - h * slope);
    });
  }

  // Adds one row to the sums of the features [begin, end), after groups_ has
  // been written.
  void AddRow(int64_t row, const float* x, const float* dy, int64_t begin,
              int64_t end) {
    double* const gamma = gamma_sums_.data();
    double* const beta = beta_sums_.data();
    x += row * s_.features * s_.pixels;
    dy += row * s_.features * s_.pixels;
    if (s_.groups == 1 && s_.pixels == 1) {
      const Group of = groups_[row];
      for (int64_t c = begin; c < end; ++c) {
        gamma[c] += dy[c] * ((x[c] - of.mean) * of.inverse);
        beta[c] += dy[c];
      }
      return;
    }
    for (int64_t c = begin; c < end; ++c) {
      const Group of = groups_[row * s_.groups + c / s_.group_features()];
      const float* const from = x + c * s_.pixels;
      const float* const above = dy + c * s_.pixels;
      gamma[c] += SumInLanes(s_.pixels, [=](int64_t p) {
        return above[p] * ((from[p] - of.mean) * of.inverse);
      });
      beta[c] += SumInLanes(s_.pixels, [=](int64_t p) { return above[p]; });
    }
  }

  const OneDnnContext& context_;
  const LayerNormShape s_;

  // Scratch, written by every call before it is read.
  std::vector<Group> groups_;
  std::vector<double> gamma_sums_;
  std::vector<double> beta_sums_;
};

}  // namespace

OpOr<LayerNormShape> MakeCpuOp(const OneDnnContext* context,
                               const LayerNormShape& shape, int64_t) {
  return std::make_unique<CpuLayerNorm>(context, shape);
}

}  // namespace sluice::kernels
