#ifndef SLUICE_CLI_PLOT_RUN_FIGURES_H_
#define SLUICE_CLI_PLOT_RUN_FIGURES_H_

#include <string>
#include <vector>

#include "cli/plot/figure.h"
#include "cli/plot/recorded_run.h"
#include "cli/plot/run_curves.h"

namespace sluice {

// A run and its name in every legend.
struct LabelledRun {
  std::string label;
  RecordedRun run;
  RunCurves curves;
};

struct FigureOptions {
  // About how many updates the timeline shows.
  int updates = 6;
  // How many workers of each run it shows at most: the first ones.
  int workers = 16;
};

// The pictures of the runs:
//
//   time       test loss and accuracy, training loss, against time
//   version    the same, against the version
//   staleness  share of the applied gradients by staleness
//   timeline   who computed, waited or was cancelled in the first updates
//
// A picture for which no run has data is left out.
std::vector<Figure> FiguresOf(const std::vector<LabelledRun>& runs,
                              const FigureOptions& options);

}  // namespace sluice

#endif  // SLUICE_CLI_PLOT_RUN_FIGURES_H_
