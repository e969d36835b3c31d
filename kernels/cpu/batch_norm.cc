#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vector_loops.h"

SLUICE_AVX2_BEGIN
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
    SumChannels<1>(samples, {&sums_},
                   [=](auto at, int64_t) { return std::array{at(x)}; });
    for (int64_t c = 0; c < s_.channels; ++c) {
      mean[c] = static_cast<float>(sums_[c] / count);
    }
    SumChannels<1>(samples, {&sums_}, [=](auto at, int64_t c) {
      const auto d = at(x) - mean[c];
      return std::array{d * d};
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
      ForEachElement(samples, [=](auto at, const Line& line) {
        at.Put(y, ReluOf(line.Of(at(x))));
      });
    } else {
      ForEachElement(samples, [=](auto at, const Line& line) {
        at.Put(y, line.Of(at(x)));
      });
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
    SumChannels<2>(samples, {&sums_, &products_}, [=](auto at, int64_t c) {
      return std::array{at(dy), at(dy) * (at(x) - mean[c])};
    });
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
    ForEachElement(samples, [=](auto at, const Line& line) {
      at.Put(dx, line.factor * at(dy) + line.Of(at(x)));
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

    template <typename T>
    T Of(T x) const {
      return slope * (x - center) + height;
    }
  };

  double Deviation(float variance) const {
    return std::sqrt(variance + s_.epsilon);
  }

  // (*sums[n])[c] = the sum of terms(at, c)[n] over the elements of channel c.
  template <int N, typename F>
  void SumChannels(int64_t samples,
                   const std::array<std::vector<double>*, N>& sums, F terms) {
    const auto add = [&](int64_t begin, int64_t end) {
      for (auto* const to : sums) {
        std::fill(&(*to)[begin], &(*to)[end], 0.0);
      }
      for (int64_t n = 0; n < samples; ++n) {
        for (int64_t c = begin; c < end; ++c) {
          const int64_t first = (n * s_.channels + c) * s_.pixels;
          if (s_.pixels == 1) {
            const auto more = terms(At<float>{first}, c);
            for (int k = 0; k < N; ++k) (*sums[k])[c] += more[k];
          } else {
            const auto more =
                SumsInLanes<N>(first, first + s_.pixels,
                               [=](auto at) { return terms(at, c); });
            for (int k = 0; k < N; ++k) (*sums[k])[c] += more[k];
          }
        }
      }
    };
    ParallelFor(context_.threads, s_.channels, samples * s_.pixels, add);
  }

  // f(at, line of its channel) for every element.
  template <typename F>
  void ForEachElement(int64_t samples, F f) {
    const Line* const lines = lines_.data();
    const int64_t channels = s_.channels, pixels = s_.pixels;
    const auto write = [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t c = 0; c < channels; ++c) {
          const Line line = lines[c];
          const int64_t first = (row * channels + c) * pixels;
          ForEachAt(first, first + pixels, [&](auto at) { f(at, line); });
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
SLUICE_AVX2_END
