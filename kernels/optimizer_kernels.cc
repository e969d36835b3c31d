// Why an element's bits do not depend on where it stands: whole vectors and the
// tail go through the same rule (Apply), and nothing is added across elements.
// 21 elements with 8 lanes:
//
//   0 to 15     two vectors side by side
//   16 to 20    a tail of 5, copied into a vector of zeros
//
// The sum of the gradients is made in registers, just before the rule takes it:
// for each element one product and K - 1 fused additions, in the order given.
#include "kernels/optimizer_kernels.h"

#include <cmath>
#include <cstring>

// This file is compiled once for each instruction set; which one runs is
// decided at the first call.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer_kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_NATIVE_FMA

using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;

// Whole vectors of memory.
struct WholeAccess {
  HWY_INLINE Vector Load(const float* from) const {
    return hn::LoadU(Tag(), from);
  }
  HWY_INLINE void Store(Vector value, float* to) const {
    hn::StoreU(value, Tag(), to);
  }
};

// The first `count` elements of a vector; the rest are zeros and stay out of
// memory. So a tail goes through the same instructions as the body.
struct TailAccess {
  size_t count;

  HWY_INLINE Vector Load(const float* from) const {
    HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)] = {};
    std::memcpy(lanes, from, count * sizeof(float));
    return hn::Load(Tag(), lanes);
  }
  HWY_INLINE void Store(Vector value, float* to) const {
    HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
    hn::Store(value, Tag(), lanes);
    std::memcpy(to, lanes, count * sizeof(float));
  }
};

enum class Momentum { kNone, kHeavyBall, kNesterov };

// A rule is an optimizer's lines after the sum: Apply takes the sum `g` and the
// weights `w` at position `i`, moves its state, and returns the new weights.

template <bool kDecay, Momentum kMomentum>
struct SgdRule {
  const SgdOptions& options;
  float* velocity;

  template <typename Access>
  HWY_INLINE Vector Apply(const Access& access, int64_t i, Vector g,
                          Vector w) const {
    const Tag tag;
    if constexpr (kDecay) {
      g = hn::MulAdd(hn::Set(tag, options.weight_decay), w, g);
    }
    Vector step = g;
    if constexpr (kMomentum != Momentum::kNone) {
      const Vector momentum = hn::Set(tag, options.momentum);
      const Vector v = hn::MulAdd(momentum, access.Load(velocity + i), g);
      access.Store(v, velocity + i);
      step = kMomentum == Momentum::kNesterov ? hn::MulAdd(momentum, v, g) : v;
    }
    return hn::NegMulAdd(hn::Set(tag, options.learning_rate), step, w);
  }
};

template <bool kDecay>
struct AdagradRule {
  const AdagradOptions& options;
  float* accumulator;

  template <typename Access>
  HWY_INLINE Vector Apply(const Access& access, int64_t i, Vector g,
                          Vector w) const {
    const Tag tag;
    if constexpr (kDecay) {
      g = hn::MulAdd(hn::Set(tag, options.weight_decay), w, g);
    }
    const Vector s = hn::MulAdd(g, g, access.Load(accumulator + i));
    access.Store(s, accumulator + i);
    return hn::NegMulAdd(hn::Set(tag, options.learning_rate),
                         hn::Div(g, hn::Sqrt(s)), w);
  }
};

template <bool kDecay, bool kShrink>
struct AdamRule {
  const AdamFactors& by;
  float* mean;
  float* square;

  template <typename Access>
  HWY_INLINE Vector Apply(const Access& access, int64_t i, Vector g,
                          Vector w) const {
    const Tag tag;
    if constexpr (kDecay) g = hn::MulAdd(hn::Set(tag, by.decay), w, g);
    const Vector m = hn::MulAdd(hn::Set(tag, by.beta1), access.Load(mean + i),
                                hn::Mul(hn::Set(tag, by.rest1), g));
    const Vector v = hn::MulAdd(hn::Set(tag, by.beta2), access.Load(square + i),
                                hn::Mul(hn::Mul(hn::Set(tag, by.rest2), g), g));
    access.Store(m, mean + i);
    access.Store(v, square + i);
    const Vector d = hn::MulAdd(hn::Sqrt(v), hn::Set(tag, by.root),
                                hn::Set(tag, by.epsilon));
    if constexpr (kShrink) w = hn::NegMulAdd(hn::Set(tag, by.shrink), w, w);
    return hn::NegMulAdd(hn::Set(tag, by.step), hn::Div(m, d), w);
  }
};

struct SumRule {
  template <typename Access>
  HWY_INLINE Vector Apply(const Access&, int64_t, Vector g, Vector) const {
    return g;
  }
};

template <typename Access>
HWY_INLINE Vector Sum(const WeightedGradients& sum, const Access& access,
                      int64_t i) {
  const Tag tag;
  Vector g =
      hn::Mul(hn::Set(tag, sum.factors[0]), access.Load(sum.gradients[0] + i));
  for (size_t k = 1; k < sum.gradients.size(); ++k) {
    g = hn::MulAdd(hn::Set(tag, sum.factors[k]),
                   access.Load(sum.gradients[k] + i), g);
  }
  return g;
}

template <typename Rule>
void Run(const Rule& rule, const WeightedGradients& sum, int64_t n,
         const float* weights, float* updated) {
  const int64_t lanes = hn::Lanes(Tag());
  const WholeAccess whole;
  int64_t i = 0;
  // Two vectors side by side: their chains of fma hide each other's latency.
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const int64_t j = i + lanes;
    const Vector g0 = Sum(sum, whole, i);
    const Vector g1 = Sum(sum, whole, j);
    whole.Store(rule.Apply(whole, i, g0, whole.Load(weights + i)), updated + i);
    whole.Store(rule.Apply(whole, j, g1, whole.Load(weights + j)), updated + j);
  }
  for (; i < n; i += lanes) {
    const TailAccess tail{static_cast<size_t>(HWY_MIN(lanes, n - i))};
    tail.Store(rule.Apply(tail, i, Sum(sum, tail, i), tail.Load(weights + i)),
               updated + i);
  }
}

void WeightedSum(const WeightedGradients& gradients, int64_t n, float* sum) {
  Run(SumRule(), gradients, n, gradients.gradients[0], sum);
}

template <bool kDecay>
void RunMomentum(const SgdOptions& options, const WeightedGradients& sum,
                 int64_t n, const float* weights, float* velocity,
                 float* updated) {
  if (options.momentum == 0) {
    Run(SgdRule<kDecay, Momentum::kNone>{options, velocity}, sum, n, weights,
        updated);
  } else if (options.nesterov) {
    Run(SgdRule<kDecay, Momentum::kNesterov>{options, velocity}, sum, n,
        weights, updated);
  } else {
    Run(SgdRule<kDecay, Momentum::kHeavyBall>{options, velocity}, sum, n,
        weights, updated);
  }
}

void Sgd(const SgdOptions& options, const WeightedGradients& sum, int64_t n,
         const float* weights, float* velocity, float* updated) {
  if (options.weight_decay == 0) {
    RunMomentum<false>(options, sum, n, weights, velocity, updated);
  } else {
    RunMomentum<true>(options, sum, n, weights, velocity, updated);
  }
}

void Adagrad(const AdagradOptions& options, const WeightedGradients& sum,
             int64_t n, const float* weights, float* accumulator,
             float* updated) {
  if (options.weight_decay == 0) {
    Run(AdagradRule<false>{options, accumulator}, sum, n, weights, updated);
  } else {
    Run(AdagradRule<true>{options, accumulator}, sum, n, weights, updated);
  }
}

void Adam(const AdamOptions& options, const WeightedGradients& sum, int64_t n,
          const float* weights, float* mean, float* square, float* updated) {
  const AdamFactors by(options);
  if (by.shrink != 0) {
    Run(AdamRule<false, true>{by, mean, square}, sum, n, weights, updated);
  } else if (by.decay != 0) {
    Run(AdamRule<true, false>{by, mean, square}, sum, n, weights, updated);
  } else {
    Run(AdamRule<false, false>{by, mean, square}, sum, n, weights, updated);
  }
}

#else  // An instruction set without fma would round twice.

void WeightedSum(const WeightedGradients& gradients, int64_t n, float* sum) {
  WeightedSumReference(gradients, n, sum);
}

void Sgd(const SgdOptions& options, const WeightedGradients& sum, int64_t n,
         const float* weights, float* velocity, float* updated) {
  SgdUpdateReference(options, sum, n, weights, velocity, updated);
}

void Adagrad(const AdagradOptions& options, const WeightedGradients& sum,
             int64_t n, const float* weights, float* accumulator,
             float* updated) {
  AdagradUpdateReference(options, sum, n, weights, accumulator, updated);
}

void Adam(const AdamOptions& options, const WeightedGradients& sum, int64_t n,
          const float* weights, float* mean, float* square, float* updated) {
  AdamUpdateReference(options, sum, n, weights, mean, square, updated);
}

#endif  // HWY_NATIVE_FMA

// Whether all `n` values are finite: an exponent of ones is NaN or infinity.
bool AllFinite(const float* values, int64_t n) {
  const hn::ScalableTag<int32_t> tag;
  const int64_t lanes = hn::Lanes(tag);
  const auto* bits = reinterpret_cast<const int32_t*>(values);
  const auto exponent = hn::Set(tag, 0x7f800000);
  auto largest = hn::Zero(tag);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    largest = hn::Max(largest, hn::And(hn::LoadU(tag, bits + i), exponent));
  }
  bool finite = hn::AllFalse(tag, hn::Eq(largest, exponent));
  for (; i < n; ++i) finite = finite && std::isfinite(values[i]);
  return finite;
}

}  // namespace sluice::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels {
namespace {

// The weighted sum at one element.
float SumAt(const WeightedGradients& sum, int64_t i) {
  float g = sum.factors[0] * sum.gradients[0][i];
  for (size_t k = 1; k < sum.gradients.size(); ++k) {
    g = std::fma(sum.factors[k], sum.gradients[k][i], g);
  }
  return g;
}

// Basic arithmetic only, which every machine rounds alike; std::pow is not.
double Power(double base, int64_t exponent) {
  double power = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) power *= base;
  }
  return power;
}

}  // namespace

HWY_EXPORT(WeightedSum);
HWY_EXPORT(Sgd);
HWY_EXPORT(Adagrad);
HWY_EXPORT(Adam);
HWY_EXPORT(AllFinite);

void WeightedSum(const WeightedGradients& gradients, int64_t n, float* sum) {
  HWY_DYNAMIC_DISPATCH(WeightedSum)(gradients, n, sum);
}

void WeightedSumReference(const WeightedGradients& gradients, int64_t n,
                          float* sum) {
  for (int64_t i = 0; i < n; ++i) sum[i] = SumAt(gradients, i);
}

void SgdUpdate(const SgdOptions& options, const WeightedGradients& gradients,
               int64_t n, const float* weights, float* velocity,
               float* updated) {
  HWY_DYNAMIC_DISPATCH(Sgd)
  (options, gradients, n, weights, velocity, updated);
}

void SgdUpdateReference(const SgdOptions& options,
                        const WeightedGradients& gradients, int64_t n,
                        const float* weights, float* velocity, float* updated) {
  for (int64_t i = 0; i < n; ++i) {
    float g = SumAt(gradients, i);
    const float w = weights[i];
    if (options.weight_decay != 0) g = std::fma(options.weight_decay, w, g);
    float step = g;
    if (options.momentum != 0) {
      const float v = std::fma(options.momentum, velocity[i], g);
      velocity[i] = v;
      step = options.nesterov ? std::fma(options.momentum, v, g) : v;
    }
    updated[i] = std::fma(-options.learning_rate, step, w);
  }
}

void AdagradUpdate(const AdagradOptions& options,
                   const WeightedGradients& gradients, int64_t n,
                   const float* weights, float* accumulator, float* updated) {
  HWY_DYNAMIC_DISPATCH(Adagrad)
  (options, gradients, n, weights, accumulator, updated);
}

void AdagradUpdateReference(const AdagradOptions& options,
                            const WeightedGradients& gradients, int64_t n,
                            const float* weights, float* accumulator,
                            float* updated) {
  for (int64_t i = 0; i < n; ++i) {
    float g = SumAt(gradients, i);
    const float w = weights[i];
    if (options.weight_decay != 0) g = std::fma(options.weight_decay, w, g);
    const float s = std::fma(g, g, accumulator[i]);
    accumulator[i] = s;
    updated[i] = std::fma(-options.learning_rate, g / std::sqrt(s), w);
  }
}

AdamFactors::AdamFactors(const AdamOptions& o)
    : beta1(static_cast<float>(o.beta1)),
      rest1(static_cast<float>(1 - o.beta1)),
      beta2(static_cast<float>(o.beta2)),
      rest2(static_cast<float>(1 - o.beta2)),
      root(static_cast<float>(1 / std::sqrt(1 - Power(o.beta2, o.update)))),
      epsilon(static_cast<float>(o.epsilon)),
      step(
          static_cast<float>(o.learning_rate / (1 - Power(o.beta1, o.update)))),
      decay(o.decoupled ? 0 : static_cast<float>(o.weight_decay)),
      shrink(o.decoupled ? static_cast<float>(o.learning_rate * o.weight_decay)
                         : 0) {}

void AdamUpdate(const AdamOptions& options, const WeightedGradients& gradients,
                int64_t n, const float* weights, float* mean, float* square,
                float* updated) {
  HWY_DYNAMIC_DISPATCH(Adam)
  (options, gradients, n, weights, mean, square, updated);
}

void AdamUpdateReference(const AdamOptions& options,
                         const WeightedGradients& gradients, int64_t n,
                         const float* weights, float* mean, float* square,
                         float* updated) {
  const AdamFactors by(options);
  for (int64_t i = 0; i < n; ++i) {
    float g = SumAt(gradients, i);
    float w = weights[i];
    if (by.decay != 0) g = std::fma(by.decay, w, g);
    const float m = std::fma(by.beta1, mean[i], by.rest1 * g);
    const float v = std::fma(by.beta2, square[i], by.rest2 * g * g);
    mean[i] = m;
    square[i] = v;
    const float d = std::fma(std::sqrt(v), by.root, by.epsilon);
    if (by.shrink != 0) w = std::fma(-by.shrink, w, w);
    updated[i] = std::fma(-by.step, m / d, w);
  }
}

// In SGD's lines: a decay of -1 makes x - s of the sum x.
void MovingAverageUpdate(float share, const WeightedGradients& gradients,
                         int64_t n, const float* averages, float* updated) {
  SgdUpdate({.learning_rate = -share, .weight_decay = -1}, gradients, n,
            averages, nullptr, updated);
}

void MovingAverageUpdateReference(float share,
                                  const WeightedGradients& gradients, int64_t n,
                                  const float* averages, float* updated) {
  for (int64_t i = 0; i < n; ++i) {
    const float x = SumAt(gradients, i);
    updated[i] = std::fma(share, x - averages[i], averages[i]);
  }
}

int64_t FirstNonFinite(absl::Span<const float> values) {
  if (HWY_DYNAMIC_DISPATCH(AllFinite)(values.data(), values.size())) return -1;
  int64_t i = 0;
  while (std::isfinite(values[i])) ++i;
  return i;
}

}  // namespace sluice::kernels
#endif  // HWY_ONCE
