#ifndef SLUICE_COMMON_CLOCK_H_
#define SLUICE_COMMON_CLOCK_H_

#include "absl/time/time.h"

namespace sluice {

// Source of the time. Code that needs the time is given a Clock (or a time), so
// that tests and the simulator decide what time it is. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Starts at the wall clock's time and never decreases within a process, even
  // if the wall clock is set.
  virtual absl::Time Now() = 0;

  // The machine's clock. Never destroyed.
  static Clock* Real();
};

}  // namespace sluice

#endif  // SLUICE_COMMON_CLOCK_H_
