// Who computed, waited or was cancelled in the first updates.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/plot/figure_parts.h"
#include "cli/plot/timeline.h"

namespace sluice {
namespace {

constexpr int kWorkerHeight = 20;
// The panels have one scale as long as the slowest run's updates take at most
// so many times as long as the fastest's: beyond, the fast ones are a blur.
constexpr double kOneScaleRatio = 30;
// More lines than these hide the bars.
constexpr size_t kMostUpdates = 60;
// A bar with room for the name of a version, of a panel's width.
constexpr double kNameWidth = 0.055;

struct Looks {
  Doing doing;
  const char* colour;
  double half_height;  // 1: the distance of two workers.
  const char* text;
};
// What is waited comes first: the bars beside it are drawn over its ends.
constexpr Looks kLooks[] = {
    {Doing::kWaited, "#c8c8c8", 0.08, "waits"},
    {Doing::kApplied, "#0072B2", 0.36, "computes, applied in vN"},
    {Doing::kCancelled, "#D55E00", 0.36, "computes, cancelled"},
    {Doing::kDropped, "#CC79A7", 0.36, "computes, dropped"},
    {Doing::kRejected, "#000000", 0.36, "computes, rejected"},
    {Doing::kUnfinished, "#E69F00", 0.36, "computes, unfinished"},
};

// One run's panel.
class TimelinePanel {
 public:
  TimelinePanel(int number, const LabelledRun& run, const Timeline& timeline)
      : prefix_(absl::StrCat("$run", number)),
        run_(run),
        timeline_(timeline),
        // Seconds, or milliseconds where those would be 0.00-something.
        scale_(timeline.end < 1 ? 1000 : 1) {
    for (size_t i = 0; i < timeline.workers.size(); ++i) {
      row_[timeline.workers[i]] = static_cast<double>(i);
    }
  }

  void Add(FigureScript* script, std::set<Doing>* seen) {
    std::vector<std::string> plots;
    AddUpdates(script, &plots);
    for (const Looks& looks : kLooks) {
      if (AddBars(looks, script, &plots)) seen->insert(looks.doing);
    }
    AddNames(script, &plots);
    const int rows = static_cast<int>(timeline_.workers.size());
    std::string tics;
    for (const auto& [worker, row] : row_) {
      absl::StrAppend(&tics, tics.empty() ? "" : ", ", "'", worker, "' ", row);
    }
    script->AddPanel(
        Title(), rows * kWorkerHeight,
        absl::StrCat("unset grid\nset ylabel 'worker'\nset ytics (", tics,
                     ")\nset yrange [", rows - 0.5,
                     ":-0.5]\nset xrange [0:", Drawn(timeline_.end * scale_),
                     "]\nset xlabel 'time since the first task, ",
                     scale_ == 1 ? "s" : "ms", "'\n"),
        plots);
  }

 private:
  std::string Title() const {
    std::string title = run_.label;
    if (!absl::StrContains(title, run_.run.policy)) {
      absl::StrAppend(&title, ": ", run_.run.policy);
    }
    const auto shown = static_cast<int64_t>(timeline_.workers.size());
    if (shown < timeline_.all_workers) {
      absl::StrAppend(&title, ", ", shown, " of ", timeline_.all_workers,
                      " workers");
    }
    return title;
  }

  void AddUpdates(FigureScript* script, std::vector<std::string>* plots) {
    if (timeline_.updates.empty() || timeline_.updates.size() > kMostUpdates) {
      return;
    }
    std::vector<std::vector<double>> rows;
    for (const double at : timeline_.updates) rows.push_back({at * scale_});
    const std::string name = absl::StrCat(prefix_, "updates");
    script->AddData(DataBlock(name, rows));
    plots->push_back(
        absl::StrCat(name, " using 1:(-0.5):(0):(", timeline_.workers.size(),
                     ") with vectors nohead lw 0.8 lc rgb '#444444' notitle"));
  }

  bool AddBars(const Looks& looks, FigureScript* script,
               std::vector<std::string>* plots) {
    std::vector<std::vector<double>> rows;
    for (const Bar& bar : timeline_.bars) {
      if (bar.doing != looks.doing) continue;
      const double row = row_.at(bar.worker);
      rows.push_back({bar.begin * scale_, row, bar.begin * scale_,
                      bar.end * scale_, row - looks.half_height,
                      row + looks.half_height});
    }
    if (rows.empty()) return false;
    const std::string name =
        absl::StrCat(prefix_, "doing", static_cast<int>(looks.doing));
    script->AddData(DataBlock(name, rows));
    plots->push_back(absl::StrCat(
        name, " using 1:2:3:4:5:6 with boxxyerror fs solid border rgb 'white' ",
        "lw 0.6 fc rgb '", looks.colour, "' notitle"));
    return true;
  }

  // Which version a gradient became part of, where there is room to say so.
  void AddNames(FigureScript* script, std::vector<std::string>* plots) {
    std::vector<std::vector<double>> rows;
    for (const Bar& bar : timeline_.bars) {
      if (bar.doing != Doing::kApplied ||
          bar.end - bar.begin < kNameWidth * timeline_.end) {
        continue;
      }
      rows.push_back({0.5 * (bar.begin + bar.end) * scale_, row_.at(bar.worker),
                      static_cast<double>(bar.version)});
    }
    if (rows.empty()) return;
    const std::string name = absl::StrCat(prefix_, "names");
    script->AddData(DataBlock(name, rows));
    plots->push_back(absl::StrCat(
        name, " using 1:2:(sprintf('v%d', $3)) with labels font ',11' tc rgb ",
        "'white' notitle"));
  }

  const std::string prefix_;
  const LabelledRun& run_;
  const Timeline& timeline_;
  const double scale_;
  std::map<int64_t, double> row_;  // Of each worker shown.
};

// Until when each run is drawn; 0 where there is nothing to draw.
std::vector<double> EndsOf(const std::vector<LabelledRun>& runs, int updates) {
  std::vector<double> ends;
  double fastest = 0;
  double slowest = 0;
  for (const LabelledRun& run : runs) {
    const double end =
        run.run.log.has_value() ? EndOfUpdate(*run.run.log, updates) : 0;
    ends.push_back(end);
    if (end <= 0) continue;
    fastest = fastest == 0 ? end : std::min(fastest, end);
    slowest = std::max(slowest, end);
  }
  if (slowest > kOneScaleRatio * fastest) return ends;
  for (double& end : ends) end = end > 0 ? slowest : 0;
  return ends;
}

}  // namespace

std::optional<Figure> TimelineFigure(const std::vector<LabelledRun>& runs,
                                     const FigureOptions& options) {
  FigureScript script(
      "timeline",
      "The first updates: who computed, who waited, who was cancelled");
  const std::vector<double> ends = EndsOf(runs, options.updates);
  std::set<Doing> seen;
  bool any = false;
  for (size_t r = 0; r < runs.size(); ++r) {
    if (ends[r] <= 0) continue;
    const Timeline timeline =
        TimelineOf(*runs[r].run.log, ends[r], options.workers);
    if (timeline.bars.empty()) continue;
    TimelinePanel(static_cast<int>(r), runs[r], timeline).Add(&script, &seen);
    any = true;
  }
  if (!any) return std::nullopt;
  for (const Looks& looks : kLooks) {
    if (seen.count(looks.doing) == 0) continue;
    script.AddLegend(absl::StrCat("with boxes fc rgb '", looks.colour, "'"),
                     looks.text);
  }
  script.AddLegend("with lines lw 0.8 lc rgb '#444444'",
                   "an update is decided");
  return script.Finish();
}

}  // namespace sluice
