// P(x) - 1/2 and gelu'(x) - 1/2 are odd functions of x that end at 1/2. Each is
// x times a quotient of polynomials of x^2, which tools/fit_gelu.py has fitted
// up to where the function is 1/2 but for less than half a unit of the last
// place, and 1/2 from there on. So there is neither erf nor exp: 11 fused
// products and a division forward, 14 and one backward. NaN stays NaN.
#include "kernels/cpu/gelu.h"

#include <cstring>

// This file is compiled once for each instruction set; which one runs is
// decided at the first call.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gelu.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// As many floats as AVX2 has in a vector, and as the machine has.
using Narrow = hn::CappedTag<float, 8>;
using Wide = hn::ScalableTag<float>;

// Of the lowest power first.
template <typename Vector, size_t kSize>
HWY_INLINE Vector Polynomial(const float (&of)[kSize], Vector t) {
  const hn::DFromV<Vector> tag;
  Vector sum = hn::Set(tag, of[kSize - 1]);
  for (size_t i = kSize - 1; i-- > 0;) {
    sum = hn::MulAdd(sum, t, hn::Set(tag, of[i]));
  }
  return sum;
}

// x over(x^2) / under(x^2) for |x| up to `end`, then 1/2 with the sign of x.
template <typename Vector, size_t kOver, size_t kUnder>
HWY_INLINE Vector Odd(const float (&over)[kOver], const float (&under)[kUnder],
                      float end, Vector x) {
  const hn::DFromV<Vector> tag;
  const Vector t = hn::Mul(x, x);
  const Vector r =
      hn::Div(hn::Mul(x, Polynomial(over, t)), Polynomial(under, t));
  const Vector half = hn::CopySign(hn::Set(tag, 0.5f), x);
  return hn::IfThenElse(hn::Gt(hn::Abs(x), hn::Set(tag, end)), half, r);
}

template <typename Vector>
HWY_INLINE Vector Below(Vector x) {
  static constexpr float kOver[] = {0.398942232f,    0.0338511579f,
                                    0.00467714947f,  0.000168807703f,
                                    6.35173683e-06f, 2.27491075e-08f};
  static constexpr float kUnder[] = {1,
                                     0.25151819f,
                                     0.0286449697f,
                                     0.0018843452f,
                                     7.36403163e-05f,
                                     1.19746699e-06f};
  return hn::Add(hn::Set(hn::DFromV<Vector>(), 0.5f),
                 Odd(kOver, kUnder, 5.5f, x));
}

template <typename Vector>
HWY_INLINE Vector Derivative(Vector x) {
  static constexpr float kOver[] = {
      0.797884524f,    -0.0205662604f,  0.0136698913f,   0.000239504661f,
      3.20415784e-05f, 1.00123054e-06f, 1.22113875e-08f, -2.83680544e-11f};
  static constexpr float kUnder[] = {1,
                                     0.307556957f,
                                     0.0446527675f,
                                     0.00402092002f,
                                     0.000247284828f,
                                     1.02228578e-05f,
                                     3.31201164e-07f};
  return hn::Add(hn::Set(hn::DFromV<Vector>(), 0.5f),
                 Odd(kOver, kUnder, 5.9f, x));
}

// f(vector of x, vector of dy) for each vector, and a tail in a vector of
// zeros.
template <typename Tag, typename F>
HWY_INLINE void ForEach(Tag tag, int64_t n, const float* x, const float* dy,
                        float* to, F f) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(f(hn::LoadU(tag, x + i), hn::LoadU(tag, dy + i)), tag, to + i);
  }
  if (i == n) return;
  const size_t rest = (n - i) * sizeof(float);
  HWY_ALIGN float x_tail[HWY_MAX_BYTES / sizeof(float)] = {};
  HWY_ALIGN float dy_tail[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(x_tail, x + i, rest);
  std::memcpy(dy_tail, dy + i, rest);
  hn::Store(f(hn::Load(tag, x_tail), hn::Load(tag, dy_tail)), tag, x_tail);
  std::memcpy(to + i, x_tail, rest);
}

void Forward(bool wide, int64_t n, const float* x, float* y) {
  const auto rule = [](auto v, auto) { return hn::Mul(v, Below(v)); };
  wide ? ForEach(Wide(), n, x, x, y, rule)
       : ForEach(Narrow(), n, x, x, y, rule);
}

void Backward(bool wide, int64_t n, const float* x, const float* dy,
              float* dx) {
  const auto rule = [](auto v, auto g) { return hn::Mul(g, Derivative(v)); };
  wide ? ForEach(Wide(), n, x, dy, dx, rule)
       : ForEach(Narrow(), n, x, dy, dx, rule);
}

}  // namespace sluice::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels {

HWY_EXPORT(Forward);
HWY_EXPORT(Backward);

void GeluForward(bool wide, int64_t n, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(Forward)(wide, n, x, y);
}

void GeluBackward(bool wide, int64_t n, const float* x, const float* dy,
                  float* dx) {
  HWY_DYNAMIC_DISPATCH(Backward)(wide, n, x, dy, dx);
}

}  // namespace sluice::kernels
#endif  // HWY_ONCE
