#ifndef SLUICE_KERNELS_REFERENCE_ATTENTION_H_
#define SLUICE_KERNELS_REFERENCE_ATTENTION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/shapes.h"

// The specification of attention: sums in double and rounded once. T is float,
// or double for the gradient check. Arguments as AttentionShape and
// kernels::MapOp say.
namespace sluice::kernels::reference {

// One head of one sample: where its rows lie, and its probabilities.
template <typename T>
class AttentionHead {
 public:
  // `x` is the sample's.
  AttentionHead(const AttentionShape& s, int64_t head, const T* x)
      : s_(s), head_(head), x_(x), p_(s.length) {}

  // Of x: the row of place t in part 0 (query), 1 (key) or 2 (value).
  int64_t Row(int64_t t, int64_t part) const {
    return (t * 3 + part) * s_.features() + head_ * s_.head_size;
  }
  // Of y.
  int64_t OutputRow(int64_t t) const {
    return t * s_.features() + head_ * s_.head_size;
  }
  double scale() const {
    return 1 / std::sqrt(static_cast<double>(s_.head_size));
  }

  // p_ij for j <= i, by j.
  const std::vector<double>& Probabilities(int64_t i) {
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j <= i; ++j) {
      double dot = 0;
      for (int64_t c = 0; c < s_.head_size; ++c) {
        dot += static_cast<double>(x_[Row(i, 0) + c]) * x_[Row(j, 1) + c];
      }
      p_[j] = dot * scale();
      largest = std::max(largest, p_[j]);
    }
    for (int64_t j = 0; j <= i; ++j) sum += p_[j] = std::exp(p_[j] - largest);
    for (int64_t j = 0; j <= i; ++j) p_[j] /= sum;
    return p_;
  }

 private:
  const AttentionShape& s_;
  const int64_t head_;
  const T* const x_;
  std::vector<double> p_;
};

// y_i = sum_j p_ij v_j
template <typename T>
void AttentionForward(const AttentionShape& s, int64_t samples, const T* x,
                      T* y) {
  for (int64_t n = 0; n < samples; ++n) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const T* xn = x + n * s.input_size();
      AttentionHead<T> head(s, h, xn);
      for (int64_t i = 0; i < s.length; ++i) {
        const std::vector<double>& p = head.Probabilities(i);
        for (int64_t c = 0; c < s.head_size; ++c) {
          double sum = 0;
          for (int64_t j = 0; j <= i; ++j) sum += p[j] * xn[head.Row(j, 2) + c];
          y[n * s.output_size() + head.OutputRow(i) + c] = static_cast<T>(sum);
        }
      }
    }
  }
}

// With a_ij = dy_i . v_j and b_ij = p_ij (a_ij - sum_k p_ik a_ik) / sqrt(d):
// dq_i = sum_j b_ij k_j,  dk_j = sum_i b_ij q_i,  dv_j = sum_i p_ij dy_i
template <typename T>
void AttentionBackward(const AttentionShape& s, int64_t samples, const T* x,
                       const T* dy, T* dx) {
  std::vector<double> sums(s.input_size()), a(s.length);
  for (int64_t n = 0; n < samples; ++n) {
    const T* xn = x + n * s.input_size();
    const T* dyn = dy + n * s.output_size();
    std::fill(sums.begin(), sums.end(), 0);
    for (int64_t h = 0; h < s.heads; ++h) {
      AttentionHead<T> head(s, h, xn);
      for (int64_t i = 0; i < s.length; ++i) {
        const std::vector<double>& p = head.Probabilities(i);
        const T* dy_i = dyn + head.OutputRow(i);
        double mean = 0;
        for (int64_t j = 0; j <= i; ++j) {
          a[j] = 0;
          for (int64_t c = 0; c < s.head_size; ++c) {
            a[j] += static_cast<double>(dy_i[c]) * xn[head.Row(j, 2) + c];
          }
          mean += p[j] * a[j];
        }
        for (int64_t j = 0; j <= i; ++j) {
          const double b = p[j] * (a[j] - mean) * head.scale();
          for (int64_t c = 0; c < s.head_size; ++c) {
            sums[head.Row(i, 0) + c] += b * xn[head.Row(j, 1) + c];
            sums[head.Row(j, 1) + c] += b * xn[head.Row(i, 0) + c];
            sums[head.Row(j, 2) + c] += p[j] * dy_i[c];
          }
        }
      }
    }
    std::transform(sums.begin(), sums.end(), dx + n * s.input_size(),
                   [](double sum) { return static_cast<T>(sum); });
  }
}

}  // namespace sluice::kernels::reference

#endif  // SLUICE_KERNELS_REFERENCE_ATTENTION_H_
