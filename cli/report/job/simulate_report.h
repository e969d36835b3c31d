#ifndef SLUICE_CLI_REPORT_JOB_SIMULATE_REPORT_H_
#define SLUICE_CLI_REPORT_JOB_SIMULATE_REPORT_H_

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/job/resolved_job.h"
#include "sim/simulated_run.h"
#include "sim/theory/timing.h"

namespace sluice {

// What `sluice simulate` has to say.
struct SimulationReport {
  Timing timing;
  absl::Duration wall;  // The time that it took.
  // Empty: only times were simulated, no gradients.
  std::optional<SimulatedRun> run;
  SimulationTarget target;
  std::string run_dir;
  std::vector<std::string> pictures;  // Paths without .svg and .png.
};

// Prints the report. Where compute times are exponential or constant, also
// prints the time per update by the formulas.
void PrintSimulation(const ResolvedJob& job, const SimulationReport& report,
                     bool json, std::ostream& out);

}  // namespace sluice

#endif  // SLUICE_CLI_REPORT_JOB_SIMULATE_REPORT_H_
