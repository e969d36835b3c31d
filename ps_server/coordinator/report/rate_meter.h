#ifndef SLUICE_PS_SERVER_COORDINATOR_REPORT_RATE_METER_H_
#define SLUICE_PS_SERVER_COORDINATOR_REPORT_RATE_METER_H_

#include <deque>

#include "absl/time/time.h"
#include "ps_server/coordinator/core/job_state.h"

namespace sluice {

struct Rates {
  double updates_per_second = 0;
  double samples_per_second = 0;
};

// How fast a run goes, from successive states: the mean over the last
// `window`.
//
// Not thread-safe: call from one thread, or under one lock.
class RateMeter {
 public:
  // REQUIRES: window > 0.
  explicit RateMeter(absl::Duration window) : window_(window) {}

  // Takes notice of the state at `now` and returns the rates. 0 until two
  // states with time between them have come.
  Rates Update(const JobState& state, absl::Time now);

 private:
  struct Point {
    absl::Time time;
    Version version;
    int64_t samples = 0;
  };

  const absl::Duration window_;
  std::deque<Point> points_;  // Oldest first; at most one is out of window.
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_REPORT_RATE_METER_H_
