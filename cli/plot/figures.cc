#include "cli/plot/figures.h"

#include <optional>
#include <utility>

#include "cli/plot/figure_parts.h"

namespace sluice {

std::vector<Figure> FiguresOf(const std::vector<LabelledRun>& runs,
                              const FigureOptions& options) {
  std::vector<Figure> figures;
  for (std::optional<Figure> figure :
       {CurvesAgainstTime(runs), CurvesAgainstVersion(runs),
        StalenessFigure(runs), TimelineFigure(runs, options)}) {
    if (figure.has_value()) figures.push_back(*std::move(figure));
  }
  return figures;
}

}  // namespace sluice
