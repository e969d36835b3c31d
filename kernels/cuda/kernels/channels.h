#ifndef SLUICE_KERNELS_CUDA_KERNELS_CHANNELS_H_
#define SLUICE_KERNELS_CUDA_KERNELS_CHANNELS_H_

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/kernels/elementwise.h"
#include "kernels/cuda/kernels/kernels.h"

// What a thread of the kernels over channels does. Formulas as in
// kernels/reference. Three kinds: what an element of sample n adds to the sums
// of its channel, and what an element becomes, both with At(c), what they want
// to know of channel c; and what follows from the sums of channel c.
namespace sluice::kernels::cuda {

struct Nothing {};

struct FirstAsItIs {
  SLUICE_HOST_DEVICE Nothing At(uint32_t) const { return {}; }
  SLUICE_HOST_DEVICE Pair operator()(Nothing, uint32_t, float a, float) const {
    return {a, 0};
  }
};

// A number near those of its channel, taken off them before they are squared:
// the channel's first, or 0 where that is not finite, so that infinity less
// infinity is not in the sums from which the mean follows.
template <typename Type>
struct PivotOf {
  const typename Type::Stored* x;
  uint32_t pixels;
  SLUICE_HOST_DEVICE double operator()(uint32_t c) const {
    const float first = Type::Widen(x[c * pixels]);
    return fabsf(first) <= FLT_MAX ? first : 0;
  }
};

// x - pivot, and its square.
template <typename Type>
struct DistanceSums {
  PivotOf<Type> pivot_of;
  SLUICE_HOST_DEVICE double At(uint32_t c) const { return pivot_of(c); }
  SLUICE_HOST_DEVICE Pair operator()(double pivot, uint32_t, float x,
                                     float) const {
    const double distance = static_cast<double>(x) - pivot;
    return {distance, distance * distance};
  }
};

// dy, and dy (x - mean).
struct GradientSums {
  const float* mean_of;
  SLUICE_HOST_DEVICE float At(uint32_t c) const { return mean_of[c]; }
  SLUICE_HOST_DEVICE Pair operator()(float mean, uint32_t, float x,
                                     float dy) const {
    return {dy, dy * (static_cast<double>(x) - mean)};
  }
};

struct FinishSum {
  float* out;
  SLUICE_HOST_DEVICE void operator()(uint32_t c, const Pair& sum) const {
    out[c] = static_cast<float>(sum.first);
  }
};

// From DistanceSums over m numbers a channel, s1 and s2:
//
//   mean     = pivot + s1 / m
//   variance = s2 / m - (s1 / m)^2 + (mean as computed - mean as rounded)^2,
//
// which is the mean of (x - mean as rounded)^2. The difference of the first two
// is off by about 2^-52 (1 + (mean - pivot)^2 / variance) of the variance:
// 2^-51 or so where the pivot is a usual number of its channel, however large
// the mean is. At worst the pivot is the one that lies apart; but its square is
// one of the m whose mean the variance is, so (mean - pivot)^2 / variance is at
// most m. By the same factor counts what the sums themselves round, 2^-53 for
// each number that a thread adds. All of it is less than a float rounds for m
// up to some 2^21, and below 1 for every m, so that no variance is below 0.
template <typename Type>
struct FinishMoments {
  PivotOf<Type> pivot;
  double count;
  float* mean;
  float* variance;
  SLUICE_HOST_DEVICE void operator()(uint32_t c, const Pair& sum) const {
    const double shift = sum.first / count;
    mean[c] = static_cast<float>(pivot(c) + shift);
    const double rounding = mean[c] - pivot(c) - shift;
    variance[c] = static_cast<float>(sum.second / count - shift * shift +
                                     rounding * rounding);
  }
};

struct FinishBothSums {
  float* first;
  float* second;
  SLUICE_HOST_DEVICE void operator()(uint32_t c, const Pair& sum) const {
    first[c] = static_cast<float>(sum.first);
    second[c] = static_cast<float>(sum.second);
  }
};

SLUICE_HOST_DEVICE inline double Deviation(float variance, double epsilon) {
  return sqrt(static_cast<double>(variance) + epsilon);
}

struct FactorOfChannel {
  const float* gamma;
  const float* variance;
  double epsilon;
  float* factor;
  SLUICE_HOST_DEVICE void operator()(uint32_t c) const {
    factor[c] = static_cast<float>(gamma[c] / Deviation(variance[c], epsilon));
  }
};

struct AddChannelBias {
  const float* bias;
  SLUICE_HOST_DEVICE float At(uint32_t c) const { return bias[c]; }
  SLUICE_HOST_DEVICE float operator()(float of, float y, float) const {
    return y + of;
  }
};

struct ApplyFactor {
  const float* mean;
  const float* factor;
  const float* beta;
  struct Channel {
    float mean, factor, beta;
  };
  SLUICE_HOST_DEVICE Channel At(uint32_t c) const {
    return {mean[c], factor[c], beta[c]};
  }
  SLUICE_HOST_DEVICE float operator()(const Channel& of, float x, float) const {
    return (x - of.mean) * of.factor + of.beta;
  }
};

// dgamma and dbeta, and with m numbers a channel the three numbers of
//
//   dx = gamma / deviation (dy - dbeta / m - (x - mean) dgamma / deviation / m)
//
// into `table` (3, channels).
struct FinishGradients {
  const float* gamma;
  const float* variance;
  double epsilon;
  double count;
  uint32_t channels;
  float* dgamma;
  float* dbeta;
  float* table;
  SLUICE_HOST_DEVICE void operator()(uint32_t c, const Pair& sum) const {
    const double deviation = Deviation(variance[c], epsilon);
    dbeta[c] = static_cast<float>(sum.first);
    dgamma[c] = static_cast<float>(sum.second / deviation);
    table[c] = static_cast<float>(gamma[c] / deviation);
    table[channels + c] = static_cast<float>(sum.first / count);
    table[2 * channels + c] =
        static_cast<float>(sum.second / (deviation * deviation) / count);
  }
};

struct ApplyGradients {
  uint32_t channels;
  const float* mean;
  const float* table;
  struct Channel {
    float mean, factor, of_dy, of_x;
  };
  SLUICE_HOST_DEVICE Channel At(uint32_t c) const {
    return {mean[c], table[c], table[channels + c], table[2 * channels + c]};
  }
  SLUICE_HOST_DEVICE float operator()(const Channel& of, float x,
                                      float dy) const {
    return of.factor * ((dy - of.of_dy) - (x - of.mean) * of.of_x);
  }
};

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_KERNELS_CHANNELS_H_
