#ifndef SLUICE_CLI_PLOT_PLOT_RUNS_H_
#define SLUICE_CLI_PLOT_PLOT_RUNS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/plot/run_figures.h"

namespace sluice {

struct PlotRequest {
  std::vector<std::string> runs;    // Folders, real or simulated.
  std::vector<std::string> labels;  // One for each run, or none.
  std::string out = "plots";        // Folder; made if it is not there.
  std::string gnuplot = "/usr/bin/gnuplot";
  FigureOptions options;
};

struct Pictures {
  std::vector<std::string> drawn;  // Paths without .svg and .png.
  std::vector<std::string> notes;  // What of the runs was not drawn, and why.
};

// Draws the runs together. Adds to `pictures` what was drawn, also when it
// fails. Blocks until it is done.
//
// kInvalidArgument, kNotFound: the labels or a run folder are not as they
// should be; kUnavailable, kInternal, kCancelled: as Draw's, or there is
// nothing to draw. All scripts are written, also where gnuplot is missing.
absl::Status PlotRuns(const PlotRequest& request, Pictures* pictures);

// What the pictures call each of `folders`: `wanted` where it is not empty,
// else the folders' names, or their whole paths where two names are equal.
// kInvalidArgument: `wanted` are not as many, or two runs would be called
// alike.
absl::StatusOr<std::vector<std::string>> LabelsOf(
    const std::vector<std::string>& folders,
    const std::vector<std::string>& wanted);

// What a shell is told of the status that PlotRuns returned.
int PlotExitCode(const absl::Status& status);

}  // namespace sluice

#endif  // SLUICE_CLI_PLOT_PLOT_RUNS_H_
