#include "cli/plot/trade_off_figure.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr int kPanelHeight = 420;
// Beyond so many decades gnuplot's own tics are dense enough.
constexpr double kFewDecades = 2.5;
constexpr int kColours = 8;
// More points than these on a curve hide it.
constexpr int kMostPoints = 30;

// The number by which gnuplot_script.h chooses colour and dashes.
int StyleOf(const TradeOffCurve& curve) {
  return curve.colour + kColours * curve.dash;
}

// "set ytics (0.1, 0.2, 0.5, 1, ...)".
std::string TicsBetween(double low, double high) {
  std::string tics = "set ytics (";
  const int first = static_cast<int>(std::floor(std::log10(low)));
  const int last = static_cast<int>(std::ceil(std::log10(high)));
  for (int decade = first; decade <= last; ++decade) {
    for (const int digit : {1, 2, 3, 5, 7}) {
      absl::StrAppend(&tics, Drawn(digit * std::pow(10, decade)), ", ");
    }
  }
  return absl::StrCat(tics.substr(0, tics.size() - 2), ")\n");
}

}  // namespace

Figure TradeOffFigure(const std::string& name, const std::string& title,
                      const std::string& error, double target,
                      const std::vector<TradeOffCurve>& curves) {
  FigureScript script(name, title);
  std::vector<std::string> plots;
  double low = target, high = target, last = 0;
  for (size_t c = 0; c < curves.size(); ++c) {
    const TradeOffCurve& curve = curves[c];
    std::vector<std::vector<double>> rows;
    for (const TradeOffCurve::Point& point : curve.points) {
      if (!std::isfinite(point.error)) continue;
      rows.push_back({point.seconds, point.error});
      low = std::min(low, point.error);
      high = std::max(high, point.error);
      last = std::max(last, point.seconds);
    }
    if (rows.empty()) continue;
    const std::string data = absl::StrCat("$curve", c);
    script.AddData(DataBlock(data, rows));
    const std::string style =
        curve.faint
            ? absl::StrCat("with lines lw 1 ", FaintLineOf(StyleOf(curve)))
            : absl::StrCat("with linespoints lw 2 ", LineOf(StyleOf(curve)),
                           " ", PointOf(StyleOf(curve)));
    plots.push_back(absl::StrCat(
        data, " using 1:2 ", style,
        curve.faint ? "" : absl::StrCat(" pi ", 1 + rows.size() / kMostPoints),
        " notitle"));
    script.AddLegend(style, curve.label);
  }
  constexpr char kTargetStyle[] = "with lines lw 1.5 dt 3 lc rgb '#444444'";
  plots.push_back(absl::StrCat(Drawn(target), " ", kTargetStyle, " notitle"));
  script.AddLegend(kTargetStyle, "target");
  std::string commands = absl::StrCat(
      "set xlabel 'virtual time, s'\nset ylabel ", Quoted(error),
      "\nset xrange [0:", Drawn(last > 0 ? 1.01 * last : 1), "]\n");
  if (low > 0) {
    absl::StrAppend(&commands, "set logscale y\nset yrange [",
                    Drawn(0.95 * low), ":", Drawn(1.05 * high), "]\n");
    if (high < std::pow(10, kFewDecades) * low) {
      absl::StrAppend(&commands, TicsBetween(low, high));
    }
  }
  script.AddPanel("", kPanelHeight, commands, plots);
  return script.Finish();
}

}  // namespace sluice
