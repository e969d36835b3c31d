#ifndef SLUICE_CLI_REPORT_JOB_ADVISE_REPORT_H_
#define SLUICE_CLI_REPORT_JOB_ADVISE_REPORT_H_

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/plot/figure.h"
#include "common/job/resolved_job.h"
#include "sim/advice/advice.h"

namespace sluice {

// What `sluice advise` has to say.
struct AdviceReport {
  // Of the command line that trains the job: its file and flags. The choice is
  // added to them.
  std::vector<std::string> job;
  Advice advice;
  SimulationTarget target;
  int seeds = 0;
  absl::Duration wall;    // The time that it took.
  absl::Duration budget;  // The time that it was given.
  std::string out;        // The folder of its files; empty: none.
};

// Prints the choices, each at its best rate, the fastest first. Then prints the
// recommended sync block, to be pasted over that of the job file. `job` is the
// job that was asked about.
void PrintAdvice(const ResolvedJob& job, const AdviceReport& report, bool json,
                 std::ostream& out);

// The figure of the error of each choice, at its best rate and on the first
// seed, against virtual time. Empty when nothing was evaluated.
std::optional<Figure> AdviceFigure(const ResolvedJob& job,
                                   const AdviceReport& report);

}  // namespace sluice

#endif  // SLUICE_CLI_REPORT_JOB_ADVISE_REPORT_H_
