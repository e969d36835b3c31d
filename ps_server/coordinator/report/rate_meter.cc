// The oldest point that is kept is the last one at or before the window's
// begin. With a window of 5 s and a state each second the rates at 7 s are
// those from 2 s on; after a silence, with states at 0 s and 20 s only, they
// are the mean over all 20 s.
#include "ps_server/coordinator/report/rate_meter.h"

namespace sluice {

Rates RateMeter::Update(const JobState& state, absl::Time now) {
  points_.push_back({now, state.version, state.counters.samples_applied});
  while (points_.size() > 2 && points_[1].time <= now - window_) {
    points_.pop_front();
  }
  const Point& first = points_.front();
  const double seconds = absl::ToDoubleSeconds(now - first.time);
  if (seconds <= 0) return {};
  const int64_t samples = state.counters.samples_applied - first.samples;
  return {static_cast<double>(state.version - first.version) / seconds,
          static_cast<double>(samples) / seconds};
}

}  // namespace sluice
