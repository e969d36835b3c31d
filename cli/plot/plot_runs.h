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
  std::vector<std::string> notes;  // What was not drawn, and why.
};

// Draws the runs together. Adds what was drawn to `pictures`, also if it fails.
// Blocks until it is done.
//
// kInvalidArgument: the labels do not fit the runs. kNotFound: a folder is no
// run folder. kUnavailable: there is nothing to draw, or as Draw's. kInternal,
// kCancelled: as Draw's. Writes all scripts, even if gnuplot is missing.
absl::Status PlotRuns(const PlotRequest& request, Pictures* pictures);

// The labels of the runs in `folders`: `wanted`, unless it is empty; else the
// names of the folders, or their whole paths if two names are equal.
// kInvalidArgument: `wanted` has another length, or two labels are equal.
absl::StatusOr<std::vector<std::string>> LabelsOf(
    const std::vector<std::string>& folders,
    const std::vector<std::string>& wanted);

// The exit status of the command for a status of PlotRuns.
int PlotExitCode(const absl::Status& status);

}  // namespace sluice

#endif  // SLUICE_CLI_PLOT_PLOT_RUNS_H_
