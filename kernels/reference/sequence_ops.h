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

struct GroupStatistics {
  double mean = 0;
  double deviation = 1;
};

// mean = 1/m sum x,  deviation = sqrt(1/m sum (x - mean)^2 + epsilon)
template <typename T>
GroupStatistics StatisticsOf(const LayerNormShape& s, const T* x) {
  const auto m = static_cast<double>(s.group_size());
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < s.group_size(); ++i) sum += x[i];
  const double mean = sum / m;
  for (int64_t i = 0; i < s.group_size(); ++i) {
    squares += (x[i] - mean) * (x[i] - mean);
  }
  return {mean, std::sqrt(squares / m + s.epsilon)};
}

// The channel of number `i` of the group; groups of rows go round.
inline int64_t ChannelOf(const LayerNormShape& s, int64_t group, int64_t i) {
  return group % s.groups * s.group_features() + i / s.pixels;
}

// y = gamma[c] (x - mean) / deviation + beta[c]
template <typename T>
void LayerNormForward(const LayerNormShape& s, int64_t samples, const T* x,
                      const T* gamma, const T* beta, T* y) {
  for (int64_t group = 0; group < samples * s.rows * s.groups; ++group) {
    const int64_t at = group * s.group_size();
    const GroupStatistics of = StatisticsOf(s, x + at);
    for (int64_t i = 0; i < s.group_size(); ++i) {
      const int64_t c = ChannelOf(s, group, i);
      y[at + i] = static_cast<T>(
          gamma[c] * (x[at + i] - of.mean) / of.deviation + beta[c]);
    }
  }
}

// With h = (x - mean) / deviation and g = gamma dy, over the m of a group:
// dx        = (g - mean of g - h times the mean of g h) / deviation
// dgamma[c] = sum over rows and pixels of dy h
// dbeta[c]  = sum over rows and pixels of dy
template <typename T>
void LayerNormBackward(const LayerNormShape& s, int64_t samples, const T* x,
                       const T* gamma, const T* dy, T* dx, T* dgamma,
                       T* dbeta) {
  const auto m = static_cast<double>(s.group_size());
  std::vector<double> gamma_sums(s.features), beta_sums(s.features);
  for (int64_t group = 0; group < samples * s.rows * s.groups; ++group) {
    const int64_t at = group * s.group_size();
    const GroupStatistics of = StatisticsOf(s, x + at);
    const auto h = [&](int64_t i) {
      return (x[at + i] - of.mean) / of.deviation;
    };
    const auto g = [&](int64_t i) {
      return static_cast<double>(gamma[ChannelOf(s, group, i)]) * dy[at + i];
    };
    double sum = 0, sum_h = 0;
    for (int64_t i = 0; i < s.group_size(); ++i) {
      sum += g(i);
      sum_h += g(i) * h(i);
      gamma_sums[ChannelOf(s, group, i)] += dy[at + i] * h(i);
      beta_sums[ChannelOf(s, group, i)] += dy[at + i];
    }
    for (int64_t i = 0; dx != nullptr && i < s.group_size(); ++i) {
      dx[at + i] =
          static_cast<T>((g(i) - sum / m - h(i) * sum_h / m) / of.deviation);
    }
  }
  const auto round = [](double sum) { return static_cast<T>(sum); };
  std::transform(gamma_sums.begin(), gamma_sums.end(), dgamma, round);
  std::transform(beta_sums.begin(), beta_sums.end(), dbeta, round);
}

}  // namespace sluice::kernels::reference

#endif  // SLUICE_KERNELS_REFERENCE_SEQUENCE_OPS_H_
