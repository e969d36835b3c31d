#ifndef SLUICE_CLI_PLOT_FIGURE_PARTS_H_
#define SLUICE_CLI_PLOT_FIGURE_PARTS_H_

#include <optional>
#include <vector>

#include "cli/plot/figures.h"

namespace sluice {

// One picture each; empty where no run has the data.
std::optional<Figure> CurvesAgainstTime(const std::vector<LabelledRun>& runs);
std::optional<Figure> CurvesAgainstVersion(
    const std::vector<LabelledRun>& runs);
std::optional<Figure> StalenessFigure(const std::vector<LabelledRun>& runs);
std::optional<Figure> TimelineFigure(const std::vector<LabelledRun>& runs,
                                     const FigureOptions& options);

}  // namespace sluice

#endif  // SLUICE_CLI_PLOT_FIGURE_PARTS_H_
