#ifndef SLUICE_COMMON_CLOCK_H_
#define SLUICE_COMMON_CLOCK_H_

#include "absl/time/time.h"

namespace sluice {

// Where the time comes from. Everything that needs it is handed a Clock (or a
// time), so that tests and the simulator decide what time it is.
// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Never decreases within one process, also when somebody sets the wall
  // clock; starts at the wall clock's time.
  virtual absl::Time Now() = 0;

  // The machine's clock. Lives for ever.
  static Clock* Real();
};

}  // namespace sluice

#endif  // SLUICE_COMMON_CLOCK_H_
