#ifndef SLUICE_KERNELS_REFERENCE_SEQUENCE_OPS_H_
#define SLUICE_KERNELS_REFERENCE_SEQUENCE_OPS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/shapes.h"

// The specification of embedding and layer norm: sums in double and
// rounded once. T is float, or double for the gradient check. Arguments as
// kernels::EmbeddingOp and LayerNormOp say.
namespace sluice::kernels::reference {

// y[n][t][c] = token[x[n][t]][c] + position[t][c]
template <typename T>
void EmbeddingForward(const EmbeddingShape& s, int64_t samples, const T* x,
                      const T* token, const T* position, T* y) {
  for (int64_t i = 0; i < samples * s.length; ++i) {
    const auto row = static_cast<int64_t>(x[i]);
    const int64_t place = i % s.length;
    for (int64_t c = 0; c < s.features; ++c) {
      y[i * s.features + c] =
          token[row * s.features + c] + position[place * s.features + c];
    }
  }
}

// dtoken[v][c]    = sum over n, t with x[n][t] = v of dy[n][t][c]
// dposition[t][c] = sum_n dy[n][t][c]
template <typename T>
void EmbeddingBackward(const EmbeddingShape& s, int64_t samples, const T* x,
                       const T* dy, bool add, T* dtoken, T* dposition) {
  std::vector<double> token(s.token_size()), position(s.position_size());
  if (add) std::copy_n(dtoken, s.token_size(), token.begin());
  for (int64_t i = 0; i < samples * s.length; ++i) {
    const auto row = static_cast<int64_t>(x[i]);
    const int64_t place = i % s.length;
    for (int64_t c = 0; c < s.features; ++c) {
      token[row * s.features + c] += dy[i * s.features + c];
      position[place * s.features + c] += dy[i * s.features + c];
    }
  }
  const auto round = [](double sum) { return static_cast<T>(sum); };
  std::transform(token.begin(), token.end(), dtoken, round);
  std::transform(position.begin(), position.end(), dposition, round);
}

struct RowStatistics {
  double mean = 0;
  double deviation = 1;
};

// mean = 1/m sum x,  deviation = sqrt(1/m sum (x - mean)^2 + epsilon)
template <typename T>
RowStatistics StatisticsOf(const LayerNormShape& s, const T* x) {
  const auto m = static_cast<double>(s.features);
  double sum = 0, squares = 0;
  for (int64_t c = 0; c < s.features; ++c) sum += x[c];
  const double mean = sum / m;
  for (int64_t c = 0; c < s.features; ++c) {
    squares += (x[c] - mean) * (x[c] - mean);
  }
  return {mean, std::sqrt(squares / m + s.epsilon)};
}

// y[c] = gamma[c] (x[c] - mean) / deviation + beta[c]
template <typename T>
void LayerNormForward(const LayerNormShape& s, int64_t samples, const T* x,
                      const T* gamma, const T* beta, T* y) {
  for (int64_t row = 0; row < samples * s.rows; ++row) {
    const int64_t at = row * s.features;
    const RowStatistics of = StatisticsOf(s, x + at);
    for (int64_t c = 0; c < s.features; ++c) {
      y[at + c] = static_cast<T>(
          gamma[c] * (x[at + c] - of.mean) / of.deviation + beta[c]);
    }
  }
}

// With h = (x - mean) / deviation and g = gamma dy, over the m of a row:
// dx        = (g - mean of g - h times the mean of g h) / deviation
// dgamma[c] = sum over rows of dy h
// dbeta[c]  = sum over rows of dy
template <typename T>
void LayerNormBackward(const LayerNormShape& s, int64_t samples, const T* x,
                       const T* gamma, const T* dy, T* dx, T* dgamma,
                       T* dbeta) {
  const auto m = static_cast<double>(s.features);
  std::vector<double> gamma_sums(s.features), beta_sums(s.features);
  for (int64_t row = 0; row < samples * s.rows; ++row) {
    const int64_t at = row * s.features;
    const RowStatistics of = StatisticsOf(s, x + at);
    const auto h = [&](int64_t c) {
      return (x[at + c] - of.mean) / of.deviation;
    };
    double sum = 0, sum_h = 0;
    for (int64_t c = 0; c < s.features; ++c) {
      const double g = static_cast<double>(gamma[c]) * dy[at + c];
      sum += g;
      sum_h += g * h(c);
      gamma_sums[c] += dy[at + c] * h(c);
      beta_sums[c] += dy[at + c];
    }
    for (int64_t c = 0; dx != nullptr && c < s.features; ++c) {
      const double g = static_cast<double>(gamma[c]) * dy[at + c];
      dx[at + c] =
          static_cast<T>((g - sum / m - h(c) * sum_h / m) / of.deviation);
    }
  }
  const auto round = [](double sum) { return static_cast<T>(sum); };
  std::transform(gamma_sums.begin(), gamma_sums.end(), dgamma, round);
  std::transform(beta_sums.begin(), beta_sums.end(), dbeta, round);
}

}  // namespace sluice::kernels::reference

#endif  // SLUICE_KERNELS_REFERENCE_SEQUENCE_OPS_H_
