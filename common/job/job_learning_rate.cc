#include "common/job/job_learning_rate.h"

#include <cmath>

namespace sluice {

double SamplesOfEpochs(double epochs, int64_t train_samples) {
  const double samples = epochs * static_cast<double>(train_samples);
  const double whole = std::round(samples);
  return std::abs(samples - whole) <= 1e-9 * samples ? whole : samples;
}

LearningRateOptions JobLearningRate(const proto::Job& job,
                                    int64_t train_samples) {
  const proto::Schedule& schedule = job.schedule();
  const auto samples = [train_samples](double epochs) {
    return SamplesOfEpochs(epochs, train_samples);
  };
  LearningRateOptions options;
  options.base = job.optimizer().learning_rate();
  switch (schedule.kind_case()) {
    case proto::Schedule::kStep:
      options.kind = LearningRateOptions::Kind::kStep;
      options.step_samples = samples(schedule.step().every_epochs());
      for (const double epochs : schedule.step().at_epochs()) {
        options.step_at.push_back(samples(epochs));
      }
      options.step_factor = schedule.step().factor();
      break;
    case proto::Schedule::kCosine:
      options.kind = LearningRateOptions::Kind::kCosine;
      options.cosine_samples = samples(schedule.cosine().epochs());
      options.cosine_final = schedule.cosine().final_factor();
      break;
    default:
      options.kind = LearningRateOptions::Kind::kConstant;
  }
  options.warmup_samples = samples(schedule.warmup_epochs());
  options.linear_scaling = schedule.linear_scaling();
  return options;
}

}  // namespace sluice
