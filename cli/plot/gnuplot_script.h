#ifndef SLUICE_CLI_PLOT_GNUPLOT_SCRIPT_H_
#define SLUICE_CLI_PLOT_GNUPLOT_SCRIPT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace sluice {

// A picture: a gnuplot script that holds its data and, run in a folder, leaves
// NAME.svg and NAME.png there. People may edit it and run it again.
struct Figure {
  std::string name;
  std::string script;
};

// `text` as a string constant of gnuplot, in which nothing but the text itself
// has a meaning. What cannot be drawn (control characters, bytes that are no
// UTF-8) becomes '?'.
std::string Quoted(absl::string_view text);

// A number with as many digits as a picture needs.
std::string Drawn(double value);

// The definition of data block `name` ("$a"), a row of numbers each.
std::string DataBlock(absl::string_view name,
                      const std::vector<std::vector<double>>& rows);

// How run number `run` (from 0) is drawn in every picture: colour and point
// are its own among the first eight, later ones are dashed or hatched.
std::string ColourOf(int run);
std::string LineOf(int run);       // Options for `with lines`.
std::string FaintLineOf(int run);  // The same, half transparent.
std::string FillOf(int run);       // Options for `with boxes`.
std::string PointOf(int run);      // What `with linespoints` needs besides.

// Builds the script of one picture, `kWidth` wide, from top to bottom: a title,
// panels, a legend.
//
// Not thread-safe.
class FigureScript {
 public:
  // In the units of the SVG; the PNG has twice as many pixels. At 16 cm, the
  // width of a page's text, the letters are those of an 8-point font.
  static constexpr int kWidth = 800;

  FigureScript(std::string name, absl::string_view title);

  // Goes before everything that is drawn.
  void AddData(const std::string& data_block) { data_ += data_block; }
  // The next panel, its axes `height` high. `commands` sets up what is its own
  // (axes, labels) and begins with nothing set but the house style; `plots`
  // are the elements of its plot command.
  void AddPanel(absl::string_view title, int height, absl::string_view commands,
                const std::vector<std::string>& plots);
  // What the legend below the last panel says: elements of a plot command that
  // draws them ("with lines lc 1") and their texts.
  void AddLegend(absl::string_view style, absl::string_view text);

  // REQUIRES: there is a panel.
  Figure Finish() const;

 private:
  struct Panel {
    std::string title;
    int top = 0;  // Of its axes, from the picture's top.
    int height = 0;
    std::string commands;
    std::vector<std::string> plots;
  };
  struct LegendEntry {
    std::string style;
    std::string text;
  };
  int LegendColumns() const;
  std::string PanelText(const Panel& panel, int picture_height,
                        bool with_legend) const;

  const std::string name_;
  const std::string title_;
  std::string data_;
  std::vector<Panel> panels_;
  std::vector<LegendEntry> legend_;
  int bottom_;  // Of what has been added.
};

}  // namespace sluice

#endif  // SLUICE_CLI_PLOT_GNUPLOT_SCRIPT_H_
