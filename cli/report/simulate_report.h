#ifndef SLUICE_CLI_REPORT_SIMULATE_REPORT_H_
#define SLUICE_CLI_REPORT_SIMULATE_REPORT_H_

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/resolved_job.h"
#include "sim/simulated_run.h"
#include "sim/timing.h"

namespace sluice {

// What `sluice simulate` has to say.
struct SimulationReport {
  Timing timing;
  absl::Duration wall;  // How long it took.
  // With gradients; else only times were simulated.
  std::optional<SimulatedRun> run;
  SimulationTarget target;
  std::string run_dir;
  std::vector<std::string> pictures;  // Paths without .svg and .png.
};

// Prints it, and what the formulas say of the time per update where the compute
// times are exponential or constant.
void PrintSimulation(const ResolvedJob& job, const SimulationReport& report,
                     bool json, std::ostream& out);

}  // namespace sluice

#endif  // SLUICE_CLI_REPORT_SIMULATE_REPORT_H_
