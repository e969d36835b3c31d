// A base rate of 0.1, linear scaling, updates of 4 gradients, warm-up over 1000
// samples: the full rate is 0.4, reached from 0.1 in a straight line,
//
//   after 0 samples    0.1 + 0.3 * 0.0005 = 0.10015
//   after 500          0.1 + 0.3 * 0.5005 = 0.25015
//   after 1000         0.4, from here on times the decay
//
// and an update of the run's end, with 1 gradient, has 0.1.
#include "common/job/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sluice {
namespace {

double Decays(const LearningRateOptions& o, double samples) {
  if (o.step_at.empty()) return std::floor(samples / o.step_samples);
  return static_cast<double>(
      std::count_if(o.step_at.begin(), o.step_at.end(),
                    [&](double at) { return at <= samples; }));
}

double Decay(const LearningRateOptions& o, double samples) {
  switch (o.kind) {
    case LearningRateOptions::Kind::kConstant:
      return 1;
    case LearningRateOptions::Kind::kStep:
      return std::pow(o.step_factor, Decays(o, samples));
    case LearningRateOptions::Kind::kCosine: {
      const double done = std::min(1.0, samples / o.cosine_samples);
      const double wave = (1 + std::cos(std::numbers::pi * done)) / 2;
      return o.cosine_final + (1 - o.cosine_final) * wave;
    }
  }
  return 1;
}

}  // namespace

double LearningRate(const LearningRateOptions& options, int64_t samples,
                    int gradients) {
  const double full = options.base * (options.linear_scaling ? gradients : 1);
  const double decayed = full * Decay(options, samples);
  if (samples >= options.warmup_samples) return decayed;
  const double from = options.linear_scaling ? options.base : 0;
  // The first update already moves: half a sample counts as progress, so that
  // a warm-up from 0 does not begin with an update of rate 0.
  const double done = (samples + 0.5) / options.warmup_samples;
  return std::min(decayed, from + (full - from) * done);
}

}  // namespace sluice
