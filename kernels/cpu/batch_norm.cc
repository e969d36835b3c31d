#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vector_loops.h"

SLUICE_AVX2_BEGIN
namespace sluice::kernels {
namespace {

// What a channel's elements become, from x and for Backward dy too; of one
// channel, or of eight side by side.
template <typename T>
struct Line {
  T center, slope, height;
  T factor;  // Of dy.

  template <typename X>
  X Of(X x) const {
    return slope * (x - center) + height;
  }
};

// The same of all channels.
struct Lines {
  explicit Lines(int64_t channels)
      : center(channels), slope(channels), height(channels), factor(channels) {}

  template <typename T>
  Line<T> operator()(At<T> at) const {
    return {at(center.data()), at(slope.data()), at(height.data()),
            at(factor.data())};
  }

  std::vector<float> center, slope, height, factor;
};

// Loops of its own, because oneDNN divides the sums of a channel among its
// threads: their order, and so the bits, would depend on how many there are.
class CpuBatchNorm : public BatchNormOp {
 public:
  CpuBatchNorm(const OneDnnContext* context, const BatchNormShape& shape)
      : context_(*context),
        s_(shape),
        lines_(shape.channels),
        sums_{std::vector<double>(shape.channels),
              std::vector<double>(shape.channels)},
        parts_{std::vector<float>(shape.channels),
               std::vector<float>(shape.channels)} {}

  absl::Status Normalize(int64_t samples, const void* x_in, const float* gamma,
                         const float* beta, float* mean, float* variance,
                         void* y) override {
    const float* const x = AsFloats(x_in);
    std::fill_n(mean, s_.channels, 0.0f);
    std::fill_n(variance, s_.channels, 0.0f);
    if (samples == 0) return absl::OkStatus();
    const double count = static_cast<double>(samples * s_.pixels);
    SumChannels<1>(samples, mean,
                   [=](auto at, auto) { return std::array{at(x)}; });
    for (int64_t c = 0; c < s_.channels; ++c) {
      mean[c] = static_cast<float>(sums_[0][c] / count);
    }
    SumChannels<1>(samples, mean, [=](auto at, auto center) {
      const auto d = at(x) - center;
      return std::array{d * d};
    });
    for (int64_t c = 0; c < s_.channels; ++c) {
      variance[c] = static_cast<float>(sums_[0][c] / count);
    }
    return Apply(samples, x, gamma, beta, mean, variance, y);
  }

  absl::Status Apply(int64_t samples, const void* x_in, const float* gamma,
                     const float* beta, const float* mean,
                     const float* variance, void* y_out) override {
    const float* const x = AsFloats(x_in);
    float* const y = AsFloats(y_out);
    for (int64_t c = 0; c < s_.channels; ++c) {
      lines_.center[c] = mean[c];
      lines_.slope[c] = static_cast<float>(gamma[c] / Deviation(variance[c]));
      lines_.height[c] = beta[c];
    }
    if (s_.relu) {
      ForEachElement(samples, [=](auto at, const auto& line) {
        at.Put(y, ReluOf(line.Of(at(x))));
      });
    } else {
      ForEachElement(samples, [=](auto at, const auto& line) {
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
    SumChannels<2>(samples, mean, [=](auto at, auto center) {
      return std::array{at(dy), at(dy) * (at(x) - center)};
    });
    const double count =
        static_cast<double>(std::max<int64_t>(samples * s_.pixels, 1));
    for (int64_t c = 0; c < s_.channels; ++c) {
      const auto [sum, product] = std::pair(sums_[0][c], sums_[1][c]);
      const double deviation = Deviation(variance[c]);
      const double factor = gamma[c] / deviation;
      dbeta[c] = static_cast<float>(sum);
      dgamma[c] = static_cast<float>(product / deviation);
      lines_.center[c] = mean[c];
      lines_.slope[c] = static_cast<float>(-factor * (product / count) /
                                           (deviation * deviation));
      lines_.height[c] = static_cast<float>(-factor * (sum / count));
      lines_.factor[c] = static_cast<float>(factor);
    }
    if (dx == nullptr) return absl::OkStatus();
    ForEachElement(samples, [=](auto at, const auto& line) {
      at.Put(dx, line.factor * at(dy) + line.Of(at(x)));
    });
    return absl::OkStatus();
  }

 private:
  // Samples whose channels of one pixel are summed in float before the sums go
  // on in double.
  static constexpr int64_t kBlock = 64;

  double Deviation(float variance) const {
    return std::sqrt(variance + s_.epsilon);
  }

  // sums_[n][c] = the sum of terms(at, centers[c])[n] over the elements of
  // channel c, for n below N.
  template <int N, typename F>
  void SumChannels(int64_t samples, const float* centers, F terms) {
    ParallelFor(context_.threads, s_.channels, samples * s_.pixels,
                [&](int64_t begin, int64_t end) {
                  for (int n = 0; n < N; ++n) {
                    std::fill(&sums_[n][begin], &sums_[n][end], 0.0);
                  }
                  if (s_.pixels == 1) {
                    SumColumns<N>(samples, begin, end, centers, terms);
                  } else {
                    SumPlanes<N>(samples, begin, end, centers, terms);
                  }
                });
  }

  template <int N, typename F>
  void SumPlanes(int64_t samples, int64_t begin, int64_t end,
                 const float* centers, F terms) {
    for (int64_t sample = 0; sample < samples; ++sample) {
      for (int64_t c = begin; c < end; ++c) {
        const int64_t first = (sample * s_.channels + c) * s_.pixels;
        const float center = centers[c];
        const auto more =
            SumsInLanes<N>(first, first + s_.pixels, [=](auto at, auto& sums) {
              const auto of = terms(at, center);
              for (int n = 0; n < N; ++n) sums[n] += of[n];
            });
        for (int n = 0; n < N; ++n) sums_[n][c] += more[n];
      }
    }
  }

  // The same of channels of one pixel.
  template <int N, typename F>
  void SumColumns(int64_t samples, int64_t begin, int64_t end,
                  const float* centers, F terms) {
    for (int64_t from = 0; from < samples; from += kBlock) {
      for (int n = 0; n < N; ++n) {
        std::fill(&parts_[n][begin], &parts_[n][end], 0.0f);
      }
      const int64_t to = std::min(from + kBlock, samples);
      for (int64_t sample = from; sample < to; ++sample) {
        const int64_t row = sample * s_.channels;
        ForEachAt(begin, end, [&](auto c) {
          const auto more = terms(decltype(c){row + c.i}, c(centers));
          for (int n = 0; n < N; ++n) {
            float* const parts = parts_[n].data();
            c.Put(parts, c(parts) + more[n]);
          }
        });
      }
      for (int n = 0; n < N; ++n) {
        for (int64_t c = begin; c < end; ++c) sums_[n][c] += parts_[n][c];
      }
    }
  }

  // f(at, line of its channel) for every element.
  template <typename F>
  void ForEachElement(int64_t samples, F f) {
    const int64_t channels = s_.channels, pixels = s_.pixels;
    const auto write = [&](int64_t begin, int64_t end) {
      for (int64_t row = begin * channels; row < end * channels;
           row += channels) {
        if (pixels == 1) {
          ForEachAt(0, channels,
                    [&](auto c) { f(decltype(c){row + c.i}, lines_(c)); });
          continue;
        }
        for (int64_t c = 0; c < channels; ++c) {
          const Line<float> line = lines_(At<float>{c});
          const int64_t first = (row + c) * pixels;
          ForEachAt(first, first + pixels, [&](auto at) { f(at, line); });
        }
      }
    };
    ParallelFor(context_.threads, samples, s_.size(), write);
  }

  const OneDnnContext& context_;
  const BatchNormShape s_;

  // Scratch, written by every call before it is read.
  Lines lines_;
  std::array<std::vector<double>, 2> sums_;
  std::array<std::vector<float>, 2> parts_;
};

}  // namespace

OpOr<BatchNormShape> MakeCpuOp(const OneDnnContext* context,
                               const BatchNormShape& shape, int64_t) {
  return std::make_unique<CpuBatchNorm>(context, shape);
}

}  // namespace sluice::kernels
SLUICE_AVX2_END
