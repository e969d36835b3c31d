#ifndef SLUICE_CLI_REPORT_ADVISE_REPORT_H_
#define SLUICE_CLI_REPORT_ADVISE_REPORT_H_

#include <optional>
#include <ostream>
#include <string>

#include "absl/time/time.h"
#include "cli/plot/figure.h"
#include "common/resolved_job.h"
#include "sim/advice.h"

namespace sluice {

// What `sluice advise` has to say.
struct AdviceReport {
  std::string job_path;
  Advice advice;
  SimulationTarget target;
  int seeds = 0;
  absl::Duration wall;    // How long it took.
  absl::Duration budget;  // How long it might have taken.
  std::string out;        // The folder of its files; empty: none.
};

// Prints the choices, each at its best rate and the fastest first, and the
// recommended sync block, which may be pasted into the job file in place of its
// own. `job`: the one that was asked about.
void PrintAdvice(const ResolvedJob& job, const AdviceReport& report, bool json,
                 std::ostream& out);

// The error of each choice at its best rate against virtual time, on the first
// seed; empty when no evaluation was made.
std::optional<Figure> AdviceFigure(const ResolvedJob& job,
                                   const AdviceReport& report);

}  // namespace sluice

#endif  // SLUICE_CLI_REPORT_ADVISE_REPORT_H_
