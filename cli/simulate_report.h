#ifndef SLUICE_CLI_SIMULATE_REPORT_H_
#define SLUICE_CLI_SIMULATE_REPORT_H_

#include <ostream>

#include "absl/time/time.h"
#include "common/resolved_job.h"
#include "sim/timing.h"

namespace sluice {

// Prints what a simulation of times has measured and, where the compute times
// are exponential or constant, what the formulas say. `wall`: how long it took.
void PrintTiming(const ResolvedJob& job, const Timing& timing,
                 absl::Duration wall, bool json, std::ostream& out);

}  // namespace sluice

#endif  // SLUICE_CLI_SIMULATE_REPORT_H_
