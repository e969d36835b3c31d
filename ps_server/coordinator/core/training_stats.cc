// The smoothed loss is the plain mean of the first 20 updates, since the share
// of the n-th is 1/n, and from then on moves by a twentieth of the distance:
// losses of 3, 2 and 1 give 3, 2.5 and 2.
#include "ps_server/coordinator/core/training_stats.h"

#include <algorithm>

namespace sluice {
namespace {

// Share of the newest update in the smoothed loss: about the last 20 count.
constexpr double kNewestShare = 0.05;

void CountEnd(Outcome outcome, GradientCounts* counts) {
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
  CountEnd(outcome, &totals_.counters);
  CountEnd(outcome, &by_worker_[worker]);
}

void TrainingStats::Applied(int64_t staleness, int64_t samples) {
  Count(&RunCounters::samples_applied, samples);
  totals_.staleness_sum += staleness;
  ++totals_
        .staleness_histogram[std::min<int64_t>(staleness, kStalenessBins - 1)];
}

void TrainingStats::Updated(std::optional<double> loss, double learning_rate) {
  totals_.learning_rate = learning_rate;
  if (!loss.has_value()) return;
  // The first updates count fully, so that the start is not held at 0.
  const double share = std::max(kNewestShare, 1.0 / ++totals_.updates);
  totals_.loss += share * (*loss - totals_.loss);
}

double TrainingStats::mean_staleness() const {
  if (counters().applied == 0) return 0;
  return static_cast<double>(totals_.staleness_sum) / counters().applied;
}

GradientCounts TrainingStats::GradientsOf(WorkerId worker) const {
  const auto it = by_worker_.find(worker);
  return it == by_worker_.end() ? GradientCounts{} : it->second;
}

}  // namespace sluice
