#include "cli/plot/gnuplot_script.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// Okabe and Ito, "Color universal design" (2008): distinct also for most
// people who see colours otherwise. Their yellow is too pale for a line.
constexpr const char* kColours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                    "#E69F00", "#56B4E9", "#000000", "#888888"};
// Filled circle, square, triangles, diamond, and open ones: grey prints too.
constexpr int kPoints[] = {7, 5, 9, 13, 11, 6, 4, 8};
constexpr int kColourCount = std::size(kColours);

constexpr int kTitleHeight = 40;
// Above a panel: its own title; below: numbers and the axis's name.
constexpr int kAbovePanel = 30;
constexpr int kBelowPanel = 66;
constexpr int kLeft = 92;
constexpr int kRight = 20;
constexpr int kLegendRow = 21;

// Of a script, before its panels. $0, $1: the SVG's size; $2, $3: the PNG's;
// $4: the picture's name; $5: its title; $6, $7: the axes' left and right end.
constexpr char kPreamble[] = R"(
set encoding utf8
do for [kind in "svg png"] {
if (kind eq 'svg') {
  set terminal svg size $0,$1 dynamic noenhanced font 'sans-serif,14' \
    background 'white'
} else {
  set terminal pngcairo size $2,$3 noenhanced font 'sans-serif,14' \
    fontscale 1.5 linewidth 2 pointscale 2
}
set output '$4.'.kind
set multiplot title $5 font 'sans-serif,16'
set lmargin at screen $6
set rmargin at screen $7
set border 3 lc rgb '#444444'
set tics nomirror out
set grid lc rgb '#dddddd' lt 1 lw 0.7
set style fill solid noborder
set format y '%g'
set xlabel offset 0,0.6
set title offset 0,-0.4
)";

bool IsUtf8(const std::string& text) {
  // The UTF-8 decoder at hand is JSON's: what it leaves out is none.
  using Handler = nlohmann::json::error_handler_t;
  const nlohmann::json json(text);
  return json.dump(-1, ' ', false, Handler::ignore) ==
         json.dump(-1, ' ', false, Handler::replace);
}

}  // namespace

std::string Quoted(absl::string_view text) {
  std::string clean(text);
  const bool utf8 = IsUtf8(clean);
  for (char& c : clean) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !utf8)) c = '?';
  }
  return absl::StrCat("'", absl::StrReplaceAll(clean, {{"'", "''"}}), "'");
}

std::string Drawn(double value) { return absl::StrFormat("%.7g", value); }

std::string DataBlock(absl::string_view name,
                      const std::vector<std::vector<double>>& rows) {
  std::string text = absl::StrCat(name, " << END\n");
  for (const std::vector<double>& row : rows) {
    absl::StrAppend(&text,
                    absl::StrJoin(row, " ",
                                  [](std::string* out, double value) {
                                    out->append(Drawn(value));
                                  }),
                    "\n");
  }
  return absl::StrCat(text, "END\n");
}

std::string ColourOf(int run) { return kColours[run % kColourCount]; }

std::string LineOf(int run) {
  return absl::StrCat("lc rgb '", ColourOf(run), "' dt ",
                      1 + run / kColourCount % 5);
}

std::string FaintLineOf(int run) {
  // Two more digits before the colour's own: how transparent, of 255.
  std::string line = LineOf(run);
  return line.replace(line.find('#'), 1, "#80");
}

std::string FillOf(int run) {
  const int round = run / kColourCount;
  return absl::StrCat(
      "lc rgb '", ColourOf(run), "' fs ",
      round == 0 ? "solid" : absl::StrCat("pattern ", 3 + round));
}

std::string PointOf(int run) {
  return absl::StrCat("pt ", kPoints[run % kColourCount], " ps 0.6");
}

FigureScript::FigureScript(std::string name, absl::string_view title)
    : name_(std::move(name)), title_(title), bottom_(kTitleHeight) {}

void FigureScript::AddPanel(absl::string_view title, int height,
                            absl::string_view commands,
                            const std::vector<std::string>& plots) {
  const int top = bottom_ + (title.empty() ? 0 : kAbovePanel);
  panels_.push_back(
      {std::string(title), top, height, std::string(commands), plots});
  bottom_ = top + height + kBelowPanel;
}

void FigureScript::AddLegend(absl::string_view style, absl::string_view text) {
  legend_.push_back({std::string(style), std::string(text)});
}

int FigureScript::LegendColumns() const {
  size_t longest = 1;
  for (const LegendEntry& entry : legend_) {
    longest = std::max(longest, entry.text.size());
  }
  // More than gnuplot reserves for a letter, and for the sample before it: it
  // would otherwise draw more rows than there is room for.
  const int fit = (kWidth - 40) / static_cast<int>(10 * longest + 110);
  return std::clamp(fit, 1, std::max(1, static_cast<int>(legend_.size())));
}

std::string FigureScript::PanelText(const Panel& panel, int picture_height,
                                    bool with_legend) const {
  const auto screen = [&](int from_top) {
    return Drawn(1 - static_cast<double>(from_top) / picture_height);
  };
  std::string text = absl::StrCat(
      "\nset xrange [*:*]; set yrange [*:*]; unset logscale\n"
      "set xtics autofreq; set ytics autofreq\n"
      "set tmargin at screen ",
      screen(panel.top), "; set bmargin at screen ",
      screen(panel.top + panel.height), "\nset title ", Quoted(panel.title),
      "\n");
  std::vector<std::string> plots = panel.plots;
  if (with_legend) {
    for (const LegendEntry& entry : legend_) {
      plots.push_back(absl::StrCat("keyentry ", entry.style, " title ",
                                   Quoted(entry.text)));
    }
    absl::StrAppend(&text, "set key at screen 0.5,",
                    Drawn(8.0 / picture_height),
                    " bottom center horizontal Left reverse maxcols ",
                    LegendColumns(), "\n");
  } else {
    absl::StrAppend(&text, "unset key\n");
  }
  return absl::StrCat(text, panel.commands, "plot \\\n  ",
                      absl::StrJoin(plots, ", \\\n  "), "\n");
}

Figure FigureScript::Finish() const {
  SLUICE_CHECK(!panels_.empty());
  const int columns = LegendColumns();
  const int rows = (static_cast<int>(legend_.size()) + columns - 1) / columns;
  const int height = bottom_ + rows * kLegendRow + 8;
  std::string script = absl::StrCat(
      "# Draws ", name_, ".svg and ", name_, ".png: gnuplot ", name_,
      ".gnuplot\n", data_,
      absl::Substitute(kPreamble, kWidth, height, 2 * kWidth, 2 * height, name_,
                       Quoted(title_), Drawn(1.0 * kLeft / kWidth),
                       Drawn(1 - 1.0 * kRight / kWidth)));
  for (const Panel& panel : panels_) {
    absl::StrAppend(&script,
                    PanelText(panel, height, &panel == &panels_.back()));
  }
  return {name_, absl::StrCat(script, "unset multiplot\n}\nunset output\n")};
}

}  // namespace sluice
