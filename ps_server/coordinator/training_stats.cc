#include "ps_server/coordinator/training_stats.h"

#include <algorithm>

namespace sluice {
namespace {

// Share of the newest update in the smoothed loss: about the last 20 count.
constexpr double kNewestShare = 0.05;

void Count(Outcome outcome, GradientCounts* counts) {
  switch (outcome) {
    case Outcome::kApplied:
      ++counts->applied;
      return;
    case Outcome::kCancelled:
      ++counts->cancelled;
      return;
    case Outcome::kDropped:
      ++counts->dropped;
      return;
    case Outcome::kRejected:
      ++counts->rejected;
      return;
    case Outcome::kLost:
      ++counts->lost;
      return;
  }
}

}  // namespace

void TrainingStats::Ended(WorkerId worker, Outcome outcome) {
  Count(outcome, &gradients_);
  Count(outcome, &by_worker_[worker]);
}

void TrainingStats::Applied(int64_t staleness, int64_t samples) {
  samples_applied_ += samples;
  staleness_sum_ += staleness;
  ++staleness_histogram_[std::min<int64_t>(staleness, kStalenessBins - 1)];
}

void TrainingStats::Updated(double loss, double learning_rate) {
  // The first updates count fully, so that the start is not held at 0.
  const double share = std::max(kNewestShare, 1.0 / ++updates_);
  loss_ += share * (loss - loss_);
  learning_rate_ = learning_rate;
}

double TrainingStats::mean_staleness() const {
  if (gradients_.applied == 0) return 0;
  return static_cast<double>(staleness_sum_) / gradients_.applied;
}

GradientCounts TrainingStats::GradientsOf(WorkerId worker) const {
  const auto it = by_worker_.find(worker);
  return it == by_worker_.end() ? GradientCounts{} : it->second;
}

}  // namespace sluice
