#ifndef SLUICE_KERNELS_REFERENCE_BATCH_NORM_H_
#define SLUICE_KERNELS_REFERENCE_BATCH_NORM_H_

#include <cmath>
#include <cstdint>

#include "kernels/shapes.h"

// The specification of batch normalisation: sums in double and rounded once. T
// is float, or double for the gradient check. Arguments as
// kernels::BatchNormOp says.
namespace sluice::kernels::reference {

// The sum of f(index into x) over one channel.
template <typename F>
double SumOverChannel(const BatchNormShape& s, int64_t samples, int64_t channel,
                      F f) {
  double sum = 0;
  for (int64_t n = 0; n < samples; ++n) {
    for (int64_t i = 0; i < s.pixels; ++i) {
      sum += f((n * s.channels + channel) * s.pixels + i);
    }
  }
  return sum;
}

// mean[c] = 1/m sum x,  variance[c] = 1/m sum (x - mean[c])^2
// over the m numbers of channel c
template <typename T>
void BatchNormStatistics(const BatchNormShape& s, int64_t samples, const T* x,
                         T* mean, T* variance) {
  const double count = static_cast<double>(samples * s.pixels);
  for (int64_t c = 0; c < s.channels; ++c) {
    mean[c] = variance[c] = 0;
    if (samples == 0) continue;
    mean[c] = static_cast<T>(
        SumOverChannel(s, samples, c, [&](int64_t i) { return x[i]; }) / count);
    const double center = mean[c];
    variance[c] = static_cast<T>(SumOverChannel(s, samples, c,
                                                [&](int64_t i) {
                                                  const double d =
                                                      x[i] - center;
                                                  return d * d;
                                                }) /
                                 count);
  }
}

// y = gamma[c] (x - mean[c]) / sqrt(variance[c] + epsilon) + beta[c]
template <typename T>
void BatchNormApply(const BatchNormShape& s, int64_t samples, const T* x,
                    const T* gamma, const T* beta, const T* mean,
                    const T* variance, T* y) {
  for (int64_t i = 0; i < samples * s.size(); ++i) {
    const int64_t c = i / s.pixels % s.channels;
    const double deviation = std::sqrt(variance[c] + s.epsilon);
    y[i] = static_cast<T>(
        gamma[c] * (static_cast<double>(x[i]) - mean[c]) / deviation + beta[c]);
  }
}

// With h = (x - mean[c]) / sqrt(variance[c] + epsilon):
// dbeta[c]  = sum dy
// dgamma[c] = sum dy h
// dx = gamma[c] / sqrt(variance[c] + epsilon)
//      (dy - dbeta[c] / m - h dgamma[c] / m)
template <typename T>
void BatchNormBackward(const BatchNormShape& s, int64_t samples, const T* x,
                       const T* gamma, const T* mean, const T* variance,
                       const T* dy, T* dx, T* dgamma, T* dbeta) {
  const double count = static_cast<double>(samples * s.pixels);
  for (int64_t c = 0; c < s.channels; ++c) {
    const double deviation = std::sqrt(variance[c] + s.epsilon);
    const auto h = [&](int64_t i) {
      return (static_cast<double>(x[i]) - mean[c]) / deviation;
    };
    const double sum =
        SumOverChannel(s, samples, c, [&](int64_t i) { return dy[i]; });
    const double sum_h =
        SumOverChannel(s, samples, c, [&](int64_t i) { return dy[i] * h(i); });
    dbeta[c] = static_cast<T>(sum);
    dgamma[c] = static_cast<T>(sum_h);
    if (dx == nullptr) continue;
    SumOverChannel(s, samples, c, [&](int64_t i) {
      dx[i] = static_cast<T>(gamma[c] / deviation *
                             (dy[i] - sum / count - h(i) * sum_h / count));
      return 0;
    });
  }
}

}  // namespace sluice::kernels::reference

#endif  // SLUICE_KERNELS_REFERENCE_BATCH_NORM_H_
