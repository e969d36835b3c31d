// The wall clock is read once, and the monotonic clock measures from there. So
// timestamps look like wall time, but differences between them are real
// durations even if someone sets the clock in between.
#include "common/clock.h"

#include <chrono>

#include "absl/time/clock.h"

namespace sluice {
namespace {

class RealClock final : public Clock {
 public:
  absl::Time Now() override {
    return wall_start_ +
           absl::FromChrono(std::chrono::steady_clock::now() - steady_start_);
  }

 private:
  const absl::Time wall_start_ = absl::Now();
  const std::chrono::steady_clock::time_point steady_start_ =
      std::chrono::steady_clock::now();
};

}  // namespace

Clock* Clock::Real() {
  static RealClock* clock = new RealClock;
  return clock;
}

}  // namespace sluice
