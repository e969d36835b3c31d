#include "ps_server/coordinator/report/rate_meter.h"

namespace sluice {

Rates RateMeter::Update(const JobState& state, absl::Time now) {
  points_.push_back({now, state.version, state.samples_applied});
  while (points_.size() > 2 && points_[1].time <= now - window_) {
    points_.pop_front();
  }
  const Point& first = points_.front();
  const double seconds = absl::ToDoubleSeconds(now - first.time);
  if (seconds <= 0) return {};
  return {static_cast<double>(state.version - first.version) / seconds,
          static_cast<double>(state.samples_applied - first.samples) / seconds};
}

}  // namespace sluice
