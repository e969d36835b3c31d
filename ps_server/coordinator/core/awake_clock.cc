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
