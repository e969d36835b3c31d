// Loss and accuracy against time or version.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/plot/figure_parts.h"

namespace sluice {
namespace {

constexpr int kPanelHeight = 230;
// More points than these on a curve hide it; the line goes through all.
constexpr int kMostPoints = 40;
// A logarithmic axis where the loss falls further than this.
constexpr double kLinearRatio = 50;

enum class Axis { kTime, kVersion };
enum class Value { kLoss, kAccuracy };

// Smallest and largest of what is drawn.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void Include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return high < low; }
};

std::vector<std::vector<double>> TestRows(const RunCurves& curves, Axis axis,
                                          Value value) {
  std::vector<std::vector<double>> rows;
  for (const TestPoint& point : curves.test) {
    if (value == Value::kAccuracy && !point.accuracy.has_value()) continue;
    rows.push_back({axis == Axis::kTime ? point.seconds
                                        : static_cast<double>(point.version),
                    value == Value::kLoss ? point.loss : *point.accuracy});
  }
  return rows;
}

std::vector<std::vector<double>> TrainingRows(const RunCurves& curves,
                                              Axis axis) {
  std::vector<std::vector<double>> rows;
  for (const TrainingPoint& point : curves.training) {
    rows.push_back(
        {axis == Axis::kTime ? point.seconds : point.version, point.loss});
  }
  return rows;
}

// The curves of one panel.
class CurvePanel {
 public:
  CurvePanel(const std::vector<LabelledRun>& runs, Axis axis, Value value,
             FigureScript* script)
      : axis_(axis), value_(value), script_(script) {
    // The thin lines first, so that they do not hide the others.
    for (size_t r = 0; r < runs.size() && value == Value::kLoss; ++r) {
      AddTraining(static_cast<int>(r), TrainingRows(runs[r].curves, axis));
    }
    for (size_t r = 0; r < runs.size(); ++r) {
      AddTest(static_cast<int>(r), TestRows(runs[r].curves, axis, value));
    }
  }

  // False: there was nothing to draw.
  bool Finish() {
    if (plots_.empty()) return false;
    const bool logarithmic =
        value_ == Value::kLoss && y_.low > 0 && y_.high > kLinearRatio * y_.low;
    std::string title = "Test accuracy";
    if (value_ == Value::kLoss) {
      title = absl::StrCat(test_ && training_
                               ? "Loss: test (with points) and training (thin)"
                           : test_ ? "Test loss"
                                   : "Training loss",
                           logarithmic ? ", logarithmic" : "");
    }
    std::string commands = absl::StrCat(
        "set xlabel ",
        axis_ == Axis::kTime ? "'time since the first task, s'" : "'version'",
        "\nset ylabel ", value_ == Value::kLoss ? "'loss'" : "'accuracy'",
        "\nset xrange [0:", Drawn(x_.high > 0 ? x_.high * 1.01 : 1), "]\n");
    if (logarithmic) absl::StrAppend(&commands, "set logscale y\n");
    // One value alone has no range of its own.
    if (y_.low == y_.high) {
      absl::StrAppendFormat(&commands, "set yrange [%.7g:%.7g]\n", y_.low - 0.5,
                            y_.high + 0.5);
    }
    script_->AddPanel(title, kPanelHeight, commands, plots_);
    return true;
  }

 private:
  void AddTraining(int run, const std::vector<std::vector<double>>& rows) {
    if (rows.empty()) return;
    training_ = true;
    const std::string name = absl::StrCat("$training", run);
    Include(name, rows);
    plots_.push_back(absl::StrCat(name, " using 1:2 with lines lw 0.8 ",
                                  FaintLineOf(run), " notitle"));
  }
  void AddTest(int run, const std::vector<std::vector<double>>& rows) {
    if (rows.empty()) return;
    test_ = true;
    const std::string name =
        absl::StrCat(value_ == Value::kLoss ? "$loss" : "$accuracy", run);
    Include(name, rows);
    const int every = 1 + static_cast<int>(rows.size()) / kMostPoints;
    plots_.push_back(absl::StrCat(name, " using 1:2 with linespoints lw 2 ",
                                  LineOf(run), " ", PointOf(run), " pi ", every,
                                  " notitle"));
  }
  void Include(const std::string& name,
               const std::vector<std::vector<double>>& rows) {
    script_->AddData(DataBlock(name, rows));
    for (const std::vector<double>& row : rows) {
      x_.Include(row[0]);
      y_.Include(row[1]);
    }
  }

  const Axis axis_;
  const Value value_;
  FigureScript* const script_;
  Range x_, y_;
  bool training_ = false;
  bool test_ = false;
  std::vector<std::string> plots_;
};

void AddRunsToLegend(const std::vector<LabelledRun>& runs,
                     FigureScript* script) {
  for (size_t r = 0; r < runs.size(); ++r) {
    const int run = static_cast<int>(r);
    script->AddLegend(
        absl::StrCat("with linespoints lw 2 ", LineOf(run), " ", PointOf(run)),
        runs[r].label);
  }
}

std::optional<Figure> CurvesAgainst(const std::vector<LabelledRun>& runs,
                                    Axis axis) {
  bool accuracy = false;
  for (const LabelledRun& run : runs) {
    accuracy |= !TestRows(run.curves, axis, Value::kAccuracy).empty();
  }
  FigureScript script(
      axis == Axis::kTime ? "time" : "version",
      absl::StrCat(accuracy ? "Loss and accuracy" : "Loss", " against ",
                   axis == Axis::kTime ? "time" : "version"));
  const bool loss = CurvePanel(runs, axis, Value::kLoss, &script).Finish();
  if (accuracy) CurvePanel(runs, axis, Value::kAccuracy, &script).Finish();
  if (!loss && !accuracy) return std::nullopt;
  AddRunsToLegend(runs, &script);
  return script.Finish();
}

}  // namespace

std::optional<Figure> CurvesAgainstTime(const std::vector<LabelledRun>& runs) {
  return CurvesAgainst(runs, Axis::kTime);
}

std::optional<Figure> CurvesAgainstVersion(
    const std::vector<LabelledRun>& runs) {
  return CurvesAgainst(runs, Axis::kVersion);
}

}  // namespace sluice
