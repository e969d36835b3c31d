#ifndef SLUICE_PS_SERVER_COORDINATOR_CORE_TASK_TIMES_H_
#define SLUICE_PS_SERVER_COORDINATOR_CORE_TASK_TIMES_H_

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "ps_server/decisions/events.h"

namespace sluice {

// How long one phase of the tasks took, of those whose gradients came.
struct PhaseTimes {
  // 1 ms, 2 ms, 4 ms to 524 s; the last bin holds all above.
  static constexpr size_t kBins = 21;
  // In seconds. What is longer is in a later bin.
  static double Bound(size_t bin) {
    return std::ldexp(1, static_cast<int>(bin)) / 1000;
  }

  double seconds = 0;  // Of all of them.
  std::array<int64_t, kBins> histogram = {};

  // REQUIRES: `took` >= 0.
  void Add(double took) {
    seconds += took;
    size_t bin = 0;
    while (bin + 1 < kBins && took > Bound(bin)) ++bin;
    ++histogram[bin];
  }
};

struct TaskTimes {
  PhaseTimes pull;
  PhaseTimes compute;
  PhaseTimes push;
};

// A row for each phase, by the name that it has in every output.
struct TaskPhase {
  const char* name;
  double Delivery::*seconds;
  PhaseTimes TaskTimes::*times;
};
inline constexpr TaskPhase kTaskPhases[] = {
    {"pull", &Delivery::pull_seconds, &TaskTimes::pull},
    {"compute", &Delivery::compute_seconds, &TaskTimes::compute},
    {"push", &Delivery::push_seconds, &TaskTimes::push},
};
static_assert(sizeof(TaskTimes) ==
              sizeof(kTaskPhases) / sizeof(TaskPhase) * sizeof(PhaseTimes));

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_CORE_TASK_TIMES_H_
