// The oldest point that is kept is the last one at or before the window's
// begin. With a window of 5 s and a state each second the rates at 7 s are
// those from 2 s on; after a silence, with states at 0 s and 20 s only, they
// are the mean over all 20 s.
#include "ps_server/coordinator/report/rate_meter.h"

#include <algorithm>

namespace sluice {
namespace {

constexpr int kUpdates = 10;
constexpr absl::Duration kLongestWindow = absl::Minutes(10);

}  // namespace

absl::Duration RateMeter::Window() const {
  const int64_t updates = newest_->version - begin_->version;
  if (updates <= 0) return window_;
  const absl::Duration taken = newest_->time - begin_->time;
  return std::clamp(taken / updates * kUpdates, window_, kLongestWindow);
}

void RateMeter::Take(const Point& point) {
  points_.push_back(point);
  if (!begin_.has_value() || begin_->version == point.version) begin_ = point;
  if (!newest_.has_value() || newest_->version != point.version) {
    newest_ = point;
  }
}

Rates RateMeter::Update(const JobState& state, absl::Time now) {
  if (newest_.has_value() && state.version < newest_->version) {
    *this = RateMeter(window_);
  }
  const Version from = state.recovery.value_or(RecoveryState()).restored;
  if (points_.empty() && from == Version(0) &&
      state.running > absl::ZeroDuration()) {
    Take({now - state.running, from});
  }
  Take({now, state.version, state.counters.samples_applied});
  const absl::Time since = now - Window();
  while (points_.size() > 2 && points_[1].time <= since) {
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
