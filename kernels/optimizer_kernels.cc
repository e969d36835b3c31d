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

// The lines after the sum, for the vector at `i`.
template <bool kDecay, Momentum kMomentum, typename Access>
HWY_INLINE void Step(const SgdOptions& options, const Access& access, int64_t i,
                     Vector g, const float* weights, float* velocity,
                     float* updated) {
  const Tag tag;
  const Vector w = access.Load(weights + i);
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
  access.Store(hn::NegMulAdd(hn::Set(tag, options.learning_rate), step, w),
               updated + i);
}

template <typename Access>
HWY_INLINE Vector Sum(const WeightedGradients& sum, const Access& access,
                      int64_t i) {
  const Tag tag;
  Vector g =
      hn::Mul(hn::Set(tag, sum.weights[0]), access.Load(sum.gradients[0] + i));
  for (size_t k = 1; k < sum.gradients.size(); ++k) {
    g = hn::MulAdd(hn::Set(tag, sum.weights[k]),
                   access.Load(sum.gradients[k] + i), g);
  }
  return g;
}

template <bool kDecay, Momentum kMomentum>
void Run(const SgdOptions& options, const WeightedGradients& sum, int64_t n,
         const float* weights, float* velocity, float* updated) {
  const int64_t lanes = hn::Lanes(Tag());
  const WholeAccess whole;
  int64_t i = 0;
  // Two vectors side by side: their chains of fma hide each other's latency.
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const Vector g0 = Sum(sum, whole, i);
    const Vector g1 = Sum(sum, whole, i + lanes);
    Step<kDecay, kMomentum>(options, whole, i, g0, weights, velocity, updated);
    Step<kDecay, kMomentum>(options, whole, i + lanes, g1, weights, velocity,
                            updated);
  }
  for (; i < n; i += lanes) {
    const TailAccess tail{static_cast<size_t>(HWY_MIN(lanes, n - i))};
    Step<kDecay, kMomentum>(options, tail, i, Sum(sum, tail, i), weights,
                            velocity, updated);
  }
}

template <bool kDecay>
void RunMomentum(const SgdOptions& options, const WeightedGradients& sum,
                 int64_t n, const float* weights, float* velocity,
                 float* updated) {
  if (options.momentum == 0) {
    Run<kDecay, Momentum::kNone>(options, sum, n, weights, velocity, updated);
  } else if (options.nesterov) {
    Run<kDecay, Momentum::kNesterov>(options, sum, n, weights, velocity,
                                     updated);
  } else {
    Run<kDecay, Momentum::kHeavyBall>(options, sum, n, weights, velocity,
                                      updated);
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

#else  // An instruction set without fma would round twice.

void Sgd(const SgdOptions& options, const WeightedGradients& sum, int64_t n,
         const float* weights, float* velocity, float* updated) {
  SgdUpdateReference(options, sum, n, weights, velocity, updated);
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

HWY_EXPORT(Sgd);
HWY_EXPORT(AllFinite);

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
    float g = gradients.weights[0] * gradients.gradients[0][i];
    for (size_t k = 1; k < gradients.gradients.size(); ++k) {
      g = std::fma(gradients.weights[k], gradients.gradients[k][i], g);
    }
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

int64_t FirstNonFinite(absl::Span<const float> values) {
  if (HWY_DYNAMIC_DISPATCH(AllFinite)(values.data(), values.size())) return -1;
  int64_t i = 0;
  while (std::isfinite(values[i])) ++i;
  return i;
}

}  // namespace sluice::kernels
#endif  // HWY_ONCE
