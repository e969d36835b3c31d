#ifndef SLUICE_CLI_PLOT_TRADE_OFF_FIGURE_H_
#define SLUICE_CLI_PLOT_TRADE_OFF_FIGURE_H_

#include <string>
#include <vector>

#include "cli/plot/gnuplot_script.h"

namespace sluice {

// How an error falls with time, of one of several choices.
struct TradeOffCurve {
  std::string label;
  int colour = 0;      // Those of one kind have one colour ...
  int dash = 0;        // ... and are dashed differently.
  bool faint = false;  // Was given up early.
  struct Point {
    double seconds = 0;
    double error = 0;
  };
  std::vector<Point> points;
};

// Picture `name` of the curves together with the error they are to reach. The
// axis is logarithmic where no error is 0; values that are not finite are left
// out. REQUIRES: one of the curves has a point.
Figure TradeOffFigure(const std::string& name, const std::string& title,
                      const std::string& error, double target,
                      const std::vector<TradeOffCurve>& curves);

}  // namespace sluice

#endif  // SLUICE_CLI_PLOT_TRADE_OFF_FIGURE_H_
