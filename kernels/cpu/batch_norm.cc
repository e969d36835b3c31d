#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/lane_sums.h"
#include "kernels/cpu/threads.h"

namespace sluice::kernels {
namespace {

// Loops of its own, because oneDNN divides the sums of a channel among its
// threads: their order, and so the bits, would depend on how many there are.
class CpuBatchNorm : public BatchNormOp {
 public:
  CpuBatchNorm(const OneDnnContext* context, const BatchNormShape& shape)
      : context_(*context),
        s_(shape),
        lines_(shape.channels),
        sums_(shape.channels),
        products_(shape.channels) {}

  absl::Status Normalize(int64_t samples, const void* x_in, const float* gamma,
                         const float* beta, float* mean, float* variance,
                         void* y) override {
    const float* const x = AsFloats(x_in);
    std::fill_n(mean, s_.channels, 0.0f);
    std::fill_n(variance, s_.channels, 0.0f);
    if (samples == 0) return absl::OkStatus();
    const double count = static_cast<double>(samples * s_.pixels);
    SumChannels(samples, &sums_, [=](int64_t i, int64_t) { return x[i]; });
    for (int64_t c = 0; c < s_.channels; ++c) {
      mean[c] = static_cast<float>(sums_[c] / count);
    }
    SumChannels(samples, &sums_, [=](int64_t i, int64_t c) {
      const float d = x[i] - mean[c];
      return d * d;
    });
    for (int64_t c = 0; c < s_.channels; ++c) {
      variance[c] = static_cast<float>(sums_[c] / count);
    }
    return Apply(samples, x, gamma, beta, mean, variance, y);
  }

  absl::Status Apply(int64_t samples, const void* x_in, const float* gamma,
                     const float* beta, const float* mean,
                     const float* variance, void* y_out) override {
    const float* const x = AsFloats(x_in);
    float* const y = AsFloats(y_out);
    for (int64_t c = 0; c < s_.channels; ++c) {
      lines_[c] = {
          .center = mean[c],
          .slope = static_cast<float>(gamma[c] / Deviation(variance[c])),
          .height = beta[c]};
    }
    if (s_.relu) {
      ForEachElement(samples, [=](int64_t i, const Line& line) {
        y[i] = ReluOf(line.At(x[i]));
      });
    } else {
      ForEachElement(
          samples, [=](int64_t i, const Line& line) { y[i] = line.At(x[i]); });
    }
    return absl::OkStatus();
  }

  absl::Status Backward(int64_t samples, const void* x_in, const float* gamma,
                        const float* mean, const float* variance,
                        const void* dy_in, void* dx_out, float* dgamma,
                        float* dbeta) override {
    const float* const x = AsFloats(x_in);
    const float* const dy = AsFloats(dy_in);
    float* const dx = AsFloats(dx_out);
    SumChannels(samples, &sums_, [=](int64_t i, int64_t) { return dy[i]; });
    SumChannels(samples, &products_,
                [=](int64_t i, int64_t c) { return dy[i] * (x[i] - mean[c]); });
    const double count =
        static_cast<double>(std::max<int64_t>(samples * s_.pixels, 1));
    for (int64_t c = 0; c < s_.channels; ++c) {
      const double deviation = Deviation(variance[c]);
      const double factor = gamma[c] / deviation;
      dbeta[c] = static_cast<float>(sums_[c]);
      dgamma[c] = static_cast<float>(products_[c] / deviation);
      lines_[c] = {
          .center = mean[c],
          .slope = static_cast<float>(-factor * (products_[c] / count) /
                                      (deviation * deviation)),
          .height = static_cast<float>(-factor * (sums_[c] / count)),
          .factor = static_cast<float>(factor)};
    }
    if (dx == nullptr) return absl::OkStatus();
    ForEachElement(samples, [=](int64_t i, const Line& line) {
      dx[i] = line.factor * dy[i] + line.At(x[i]);
    });
    return absl::OkStatus();
  }

 private:
  // What a channel's elements become, from x and for Backward dy too.
  struct Line {
    float center = 0;
    float slope = 0;
    float height = 0;
    float factor = 0;  // Of dy.

    float At(float x) const { return slope * (x - center) + height; }
  };

  double Deviation(float variance) const {
    return std::sqrt(variance + s_.epsilon);
  }

  // (*sums)[c] = the sum of term(i, c) over the elements i of channel c.
  template <typename F>
  void SumChannels(int64_t samples, std::vector<double>* sums, F term) {
    double* const to = sums->data();
    const auto add = [&](int64_t begin, int64_t end) {
      std::fill(to + begin, to + end, 0.0);
      for (int64_t n = 0; n < samples; ++n) {
        const int64_t row = n * s_.channels;
        for (int64_t c = begin; c < end; ++c) {
          if (s_.pixels == 1) {
            to[c] += term(row + c, c);
          } else {
            const int64_t first = (row + c) * s_.pixels;
            to[c] += SumInLanes(s_.pixels,
                                [=](int64_t i) { return term(first + i, c); });
          }
        }
      }
    };
    ParallelFor(context_.threads, s_.channels, samples * s_.pixels, add);
  }

  // f(i, line of i's channel) for every element i.
  template <typename F>
  void ForEachElement(int64_t samples, F f) {
    const Line* const lines = lines_.data();
    const int64_t channels = s_.channels, pixels = s_.pixels;
    const auto write = [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t c = 0; c < channels; ++c) {
          const Line line = lines[c];
          const int64_t first = (row * channels + c) * pixels;
          for (int64_t i = first; i < first + pixels; ++i) f(i, line);
        }
      }
    };
    ParallelFor(context_.threads, samples, s_.size(), write);
  }

  const OneDnnContext& context_;
  const BatchNormShape s_;

  // Scratch, written by every call before it is read.
  std::vector<Line> lines_;
  std::vector<double> sums_;
  std::vector<double> products_;
};

}  // namespace

OpOr<BatchNormShape> MakeCpuOp(const OneDnnContext* context,
                               const BatchNormShape& shape, int64_t) {
  return std::make_unique<CpuBatchNorm>(context, shape);
}

}  // namespace sluice::kernels
