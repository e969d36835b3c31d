// The smoothed loss is the plain mean of the first 20 updates, since the share
// of the n-th is 1/n, and from then on moves by a twentieth of the distance:
// losses of 3, 2 and 1 give 3, 2.5 and 2.
#include "ps_server/coordinator/core/training_stats.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice {
namespace {

// Share of the newest value in a smoothed one: about the last 20 count.
constexpr double kNewestShare = 0.05;

// `count` values came before `newest`.
void Smooth(double newest, int64_t* count, double* value) {
  // The first ones count fully, so that the start is not held at 0.
  *value += std::max(kNewestShare, 1.0 / ++*count) * (newest - *value);
}

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
  at_update_ = totals_.counters;
  if (!loss.has_value()) return;
  Smooth(*loss, &totals_.updates, &totals_.loss);
}

TrainingStats::Totals TrainingStats::TotalsOfUpdate() const {
  Totals totals = totals_;
  static_cast<GradientCounts&>(totals.counters) = at_update_;
  return totals;
}

double TrainingStats::loss() const {
  if (totals_.updates == 0) return std::numeric_limits<double>::quiet_NaN();
  return totals_.loss;
}

void TrainingStats::Logged(const LoggedValues& values) {
  for (const auto& [name, value] : values) {
    if (logged_.size() >= kMostLoggedNames && !logged_.contains(name)) {
      Count(&RunCounters::logged_left_out);
    } else if (std::isfinite(value)) {
      Smoothed& smoothed = logged_[name];
      Smooth(value, &smoothed.count, &smoothed.value);
    }
  }
}

void TrainingStats::Timed(const Delivery& delivery) {
  for (const TaskPhase& phase : kTaskPhases) {
    (task_times_.*phase.times).Add(delivery.*phase.seconds);
  }
}

LoggedValues TrainingStats::logged() const {
  LoggedValues values;
  for (const auto& [name, smoothed] : logged_) values[name] = smoothed.value;
  return values;
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
