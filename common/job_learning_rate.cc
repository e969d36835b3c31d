#include "common/job_learning_rate.h"

namespace sluice {

LearningRateOptions JobLearningRate(const proto::Job& job,
                                    int64_t train_samples) {
  const proto::Schedule& schedule = job.schedule();
  const double epoch_samples = static_cast<double>(train_samples);
  LearningRateOptions options;
  options.base = job.optimizer().learning_rate();
  switch (schedule.kind_case()) {
    case proto::Schedule::kStep:
      options.kind = LearningRateOptions::Kind::kStep;
      options.step_samples = schedule.step().every_epochs() * epoch_samples;
      for (const double epochs : schedule.step().at_epochs()) {
        options.step_at.push_back(epochs * epoch_samples);
      }
      options.step_factor = schedule.step().factor();
      break;
    case proto::Schedule::kCosine:
      options.kind = LearningRateOptions::Kind::kCosine;
      options.cosine_samples = schedule.cosine().epochs() * epoch_samples;
      options.cosine_final = schedule.cosine().final_factor();
      break;
    default:
      options.kind = LearningRateOptions::Kind::kConstant;
  }
  options.warmup_samples = schedule.warmup_epochs() * epoch_samples;
  options.linear_scaling = schedule.linear_scaling();
  return options;
}

}  // namespace sluice
