#ifndef SLUICE_PS_SERVER_COORDINATOR_CORE_AWAKE_CLOCK_H_
#define SLUICE_PS_SERVER_COORDINATOR_CORE_AWAKE_CLOCK_H_

#include "absl/time/time.h"

namespace sluice {

// Time that stands still while the coordinator's own process was paused
// (stopped, swapped out, moved to another machine), or could tell nobody what
// it decided. Leases and deadlines run on it: nobody is declared dead for what
// was said to a sleeper, or not said at all.
//
// A pause shows in the ticks: two of them, or a tick and another event, more
// than `tolerance` apart. All but one regular tick of such a gap is left out.
//
// Not thread-safe: call from the coordinator.
class AwakeClock {
 public:
  AwakeClock(absl::Duration tick, absl::Time now)
      : tick_(tick), tolerance_(3 * tick), last_tick_(now) {}

  // The awake time at `now`. Call on every event, before anything that looks
  // at leases; `is_tick` when the event is the regular tick.
  absl::Time Advance(absl::Time now, bool is_tick);
  // Instead of a regular tick: the time since the last one has not passed. What
  // events since then were told of it is taken back.
  void Stand(absl::Time now) {
    paused_ += now - last_tick_;
    last_tick_ = now;
  }

  // Left out so far.
  absl::Duration paused() const { return paused_; }

 private:
  const absl::Duration tick_;
  // A timer that fires late by a tick or two on a busy machine is no pause.
  const absl::Duration tolerance_;
  absl::Time last_tick_;
  absl::Duration paused_ = absl::ZeroDuration();
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_CORE_AWAKE_CLOCK_H_
