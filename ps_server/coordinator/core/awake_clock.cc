// The gap is measured from the last tick, not from the last event: a peer that
// speaks right after the pause must not hide it. Ticks every second, so a gap
// of more than 3 s is a pause:
//
//   11 s  tick                    awake 11 s
//   71 s  a heartbeat arrives     60 s since the tick: 59 of them are left out
//                                 awake 12 s, as if the next tick had come
//   72 s  tick                    awake 13 s
//
// That one tick would count for each message of a pause in which there are
// messages, but no ticks; so whoever knows that no time is to pass says it in
// time for each tick (Stand).
#include "ps_server/coordinator/core/awake_clock.h"

namespace sluice {

absl::Time AwakeClock::Advance(absl::Time now, bool is_tick) {
  const absl::Duration since = now - last_tick_;
  if (since > tolerance_) {
    paused_ += since - tick_;
    last_tick_ = now;
  } else if (is_tick) {
    last_tick_ = now;
  }
  return now - paused_;
}

}  // namespace sluice
