#ifndef SLUICE_PS_SERVER_COORDINATOR_REPORT_RATE_METER_H_
#define SLUICE_PS_SERVER_COORDINATOR_REPORT_RATE_METER_H_

#include <deque>
#include <optional>

#include "absl/time/time.h"
#include "ps_server/coordinator/core/job_state.h"

namespace sluice {

struct Rates {
  double updates_per_second = 0;
  double samples_per_second = 0;
};

// How fast a run goes, from successive states: the mean over the last
// `window`, or over as long as 10 updates have taken on average so far, if that
// is longer; at most over 10 minutes. So the rate of a run whose updates take
// seconds does not depend on whether one has just come.
//
// Not thread-safe: call from one thread, or under one lock.
class RateMeter {
 public:
  // REQUIRES: window > 0.
  explicit RateMeter(absl::Duration window) : window_(window) {}

  // Takes notice of the state at `now` and returns the rates. Those of a run
  // that began at version 0 count from its begin; others are 0 until two states
  // with time between them have come. Begins anew with a state whose version is
  // lower than the last one's, as after a recovery.
  Rates Update(const JobState& state, absl::Time now);

 private:
  struct Point {
    absl::Time time;
    Version version;
    int64_t samples = 0;
  };

  void Take(const Point& point);
  absl::Duration Window() const;

  absl::Duration window_;
  // The last state before the first update, and the first one of the newest
  // version.
  std::optional<Point> begin_;
  std::optional<Point> newest_;
  std::deque<Point> points_;  // Oldest first; at most one is out of window.
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_REPORT_RATE_METER_H_
