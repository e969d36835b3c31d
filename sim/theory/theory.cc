// K_BATCH_SYNC is the one policy whose time per update is found numerically.
// Its P workers start fresh at each update and compute mini-batch after
// mini-batch until K are done in total. So the update takes longer than t if
// all workers together have finished fewer than K mini-batches by t, and
//
//   E[time] = integral over t >= 0 of P(N_1(t) + ... + N_P(t) < K)
//
// where each N_i counts the renewals of a process with steps shift + Exp(mean).
// RenewalTails gives the distribution of one N_i, FewerThan convolves it P
// times (by repeated squaring), and BatchSyncUpdateTime integrates. The work
// grows with K^2, so above kMostExact there are only bounds.
#include "sim/theory/theory.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace sluice {
namespace {

constexpr int kMostExact = 512;  // A second of work at most.

// H_n - H_{n-k} = 1/n + ... + 1/(n-k+1).
double HarmonicTail(int n, int k) {
  double sum = 0;
  for (int i = n - k + 1; i <= n; ++i) sum += 1.0 / i;
  return sum;
}

// P(N >= n) for n = 0..size, where N counts the renewals by time t of a process
// with steps shift + Exp(mean). The n-th renewal is at n shift + an Erlang
// variable. REQUIRES: size <= kMostExact.
std::vector<double> RenewalTails(double t, double shift, double mean,
                                 int size) {
  std::vector<double> tails(size + 1, 0);
  tails[0] = 1;
  for (int n = 1; n <= size; ++n) {
    const double x = (t - n * shift) / mean;
    if (x <= 0) break;
    // 1 - the sum over i < n of e^-x x^i / i!. Where e^-x underflows, x is so
    // far above kMostExact that the sum is negligible.
    double below = 0, term = std::exp(-x);
    for (int i = 0; i < n; ++i) {
      below += term;
      term *= x / (i + 1);
    }
    tails[n] = std::max(0.0, 1 - below);
  }
  return tails;
}

// The first `a.size()` terms of the product of two generating functions.
std::vector<double> Convolve(const std::vector<double>& a,
                             const std::vector<double>& b) {
  std::vector<double> c(a.size(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; i + j < a.size(); ++j) c[i + j] += a[i] * b[j];
  }
  return c;
}

// P(`workers` fresh processes together have made fewer than k renewals by t).
double FewerThan(int k, int workers, double t, double shift, double mean) {
  const std::vector<double> tails = RenewalTails(t, shift, mean, k);
  std::vector<double> one(k), sum(k, 0);
  for (int n = 0; n < k; ++n) one[n] = tails[n] - tails[n + 1];
  sum[0] = 1;
  for (int p = workers; p > 0; p /= 2) {
    if (p % 2 == 1) sum = Convolve(sum, one);
    if (p > 1) one = Convolve(one, one);
  }
  double total = 0;
  for (double probability : sum) total += probability;
  return total;
}

// The integral of FewerThan over t >= 0, by Simpson's rule piece by piece.
//
// Nobody renews faster than once a shift, so until ceil(K/P) shifts the
// integrand is 1. At n shifts it has a corner, in the n-th derivative: a piece
// ends there where the rule would see it.
double BatchSyncUpdateTime(int k, int workers, double shift, double mean) {
  constexpr double kNegligible = 1e-9;
  constexpr int kSmooth = 4;  // The rule is of fourth order.
  // Steps of a piece; the error is below 1e-4 of it.
  constexpr int kSteps = 16;
  // Four standard deviations of the K-th event of P Poisson processes.
  const double longest = 4 * mean * std::sqrt(k) / workers;
  int corner = (k - 1) / workers + 1;
  double begin = corner * shift;
  double integral = begin;
  // What a mean so small adds is lost in rounding, and so would be the steps.
  if (mean < 1e-9 * shift) return integral;
  for (double left = 1; left >= kNegligible;) {
    double end = begin + longest;
    if (corner < kSmooth && end >= (corner + 1) * shift) {
      end = ++corner * shift;
    }
    const double h = (end - begin) / kSteps;
    double sum = 0;
    for (int i = 0; i <= kSteps; ++i) {
      const double weight = i == 0 || i == kSteps ? 1 : i % 2 == 1 ? 4 : 2;
      left = FewerThan(k, workers, begin + i * h, shift, mean);
      sum += weight * left;
    }
    integral += sum * h / 3;
    begin = end;
  }
  return integral;
}

// The same for any K. At the update K steps have ended and P are under way. All
// these take (K + P) (d + m) on average (Wald's identity). Of this is left at
// the update d + m for the worker that has just begun a step, and between m and
// d + m for each other.
UpdateTime BatchSyncBounds(int k, int workers, double shift, double mean) {
  const double low = (shift + mean) * k / workers;
  return {low, low + shift * (workers - 1) / workers};
}

}  // namespace

UpdateTime ShiftedExponentialUpdateTime(proto::Policy policy, int workers,
                                        int k, double shift, double mean) {
  const auto exact = [](double seconds) {
    return UpdateTime{seconds, seconds};
  };
  if (mean == 0) {
    return exact(ConstantUpdateTime(policy, workers, k, shift));
  }
  const double expected = shift + mean;
  const double ratio = static_cast<double>(k) / workers;
  switch (policy) {
    case proto::SYNC:
      return exact(shift + mean * HarmonicTail(workers, workers));
    case proto::K_SYNC:
      return exact(shift + mean * HarmonicTail(workers, k));
    case proto::K_BATCH_SYNC:
      if (shift == 0) return exact(ratio * mean);
      return k > kMostExact
                 ? BatchSyncBounds(k, workers, shift, mean)
                 : exact(BatchSyncUpdateTime(k, workers, shift, mean));
    case proto::K_ASYNC: {
      const double fresh = mean * HarmonicTail(workers, k);
      if (shift == 0) return exact(fresh);
      // One waits for nobody, as under ASYNC; P for all, as under SYNC.
      if (k == 1) return exact(expected / workers);
      if (k == workers) return exact(shift + fresh);
      return {ratio * expected, shift + fresh};
    }
    case proto::ASYNC:
      return exact(expected / workers);
    case proto::K_BATCH_ASYNC:
      return exact(ratio * expected);
    default:
      return {};
  }
}

double ConstantUpdateTime(proto::Policy policy, int workers, int k,
                          double seconds) {
  const double ratio = static_cast<double>(k) / workers;
  switch (policy) {
    case proto::SYNC:
    case proto::K_SYNC:
      return seconds;
    case proto::K_BATCH_SYNC:
      return seconds * std::ceil(ratio);
    case proto::K_ASYNC:
      return seconds / (workers / k);
    case proto::ASYNC:
      return seconds / workers;
    case proto::K_BATCH_ASYNC:
      return seconds * ratio;
    default:
      return 0;
  }
}

double ExpectedStaleness(proto::Policy policy, int workers, int k) {
  switch (policy) {
    case proto::SYNC:
    case proto::K_SYNC:
    case proto::K_BATCH_SYNC:
      return 0;
    case proto::ASYNC:
      return workers - 1;
    case proto::K_ASYNC:
      return static_cast<double>(workers - k) / k;
    case proto::K_BATCH_ASYNC:
      return static_cast<double>(workers - 1) / k;
    default:
      return 0;
  }
}

}  // namespace sluice
