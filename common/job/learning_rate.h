#ifndef SLUICE_COMMON_JOB_LEARNING_RATE_H_
#define SLUICE_COMMON_JOB_LEARNING_RATE_H_

#include <cstdint>
#include <vector>

namespace sluice {

// The learning rate as a function of samples applied, never of versions:
// asynchronous policies make several times as many updates as synchronous
// ones from the same samples, and must not decay faster for it.
struct LearningRateOptions {
  enum class Kind { kConstant, kStep, kCosine };
  double base = 0.01;  // Rate of one gradient.
  Kind kind = Kind::kConstant;
  double step_samples = 0;  // kStep: samples between two decays; above 0,
  std::vector<double> step_at = {};  // or else those after which there is one.
  double step_factor = 0.1;          // kStep: factor of each decay.
  double cosine_samples = 0;         // kCosine: until the final rate; above 0.
  double cosine_final = 0;           // kCosine: final share of the full rate.
  double warmup_samples = 0;         // Linear rise over so many samples.
  bool linear_scaling = false;       // Goyal et al. 2017.
};

// The rate of an update of `gradients` gradients after `samples` samples have
// been applied:
//
//   full  = base * (linear_scaling ? gradients : 1)
//   decay = 1                                              kConstant
//           step_factor^floor(samples / step_samples)      kStep
//           or ^(how many of step_at are at most `samples`)
//           f + (1 - f) (1 + cos(pi t)) / 2                kCosine
//   rate  = full * decay
//
// with f = cosine_final and t = min(1, samples / cosine_samples). The warm-up
// is a ceiling: while samples < warmup_samples the rate is at most
//
//   from + (full - from) (samples + 1/2) / warmup_samples
//
// where from = base with linear_scaling, else 0. So the first update moves.
//
// REQUIRES: samples >= 0, gradients >= 1.
double LearningRate(const LearningRateOptions& options, int64_t samples,
                    int gradients);

}  // namespace sluice

#endif  // SLUICE_COMMON_JOB_LEARNING_RATE_H_
