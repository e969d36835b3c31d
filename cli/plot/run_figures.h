#ifndef SLUICE_CLI_PLOT_RUN_FIGURES_H_
#define SLUICE_CLI_PLOT_RUN_FIGURES_H_

#include <string>
#include <vector>

#include "cli/plot/figure.h"
#include "cli/plot/recorded_run.h"
#include "cli/plot/run_curves.h"

namespace sluice {

// A run with the one name that every legend calls it.
struct LabelledRun {
  std::string label;
  RecordedRun run;
  RunCurves curves;
};

struct FigureOptions {
  // The timeline shows about so many updates.
  int updates = 6;
  // And so many workers of each run, the first ones.
  int workers = 16;
};

// The pictures that the runs have the data for:
//
//   time       test loss and accuracy, training loss, against time
//   version    the same, against the version
//   staleness  share of the applied gradients by staleness
//   timeline   who computed, waited or was cancelled in the first updates
//
// A picture that none of the runs has data for is left out.
std::vector<Figure> FiguresOf(const std::vector<LabelledRun>& runs,
                              const FigureOptions& options);

}  // namespace sluice

#endif  // SLUICE_CLI_PLOT_RUN_FIGURES_H_
