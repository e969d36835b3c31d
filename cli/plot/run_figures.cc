// What the pictures of runs show: the data that figures/*.gp draw. How it
// looks is theirs to say.
#include "cli/plot/run_figures.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/plot/activity_timeline.h"
#include "cli/plot/figure_scripts.h"

namespace sluice {
namespace {

// So many bins of staleness are still told apart.
constexpr int64_t kMostBins = 24;
// The last bin holds the tail: at most this share of any run's gradients,
// besides the bin's own values.
constexpr double kTail = 0.05;
// Timelines have one scale as long as the slowest run's updates take at most
// so many times as long as the fastest's: beyond, the fast ones are a blur.
constexpr double kOneScaleRatio = 30;

std::optional<Figure> CurvesAgainst(const std::string& what,
                                    const std::vector<LabelledRun>& runs) {
  std::vector<std::string> labels;
  std::vector<std::string> training;
  std::vector<std::string> test;
  std::vector<std::string> accuracy;
  for (const LabelledRun& run : runs) {
    labels.push_back(run.label);
    std::string& training_rows = training.emplace_back();
    for (const TrainingPoint& point : run.curves.training) {
      absl::StrAppendFormat(&training_rows, "%.7g %.7g %.7g\n", point.seconds,
                            point.version, point.loss);
    }
    std::string& test_rows = test.emplace_back();
    std::string& accuracy_rows = accuracy.emplace_back();
    for (const TestPoint& point : run.curves.test) {
      if (point.loss.has_value()) {
        absl::StrAppendFormat(&test_rows, "%.7g %d %.7g\n", point.seconds,
                              point.version, *point.loss);
      }
      if (!point.accuracy.has_value()) continue;
      absl::StrAppendFormat(&accuracy_rows, "%.7g %d %.7g\n", point.seconds,
                            point.version, *point.accuracy);
    }
  }
  if (absl::StrJoin(training, "").empty() && absl::StrJoin(test, "").empty()) {
    return std::nullopt;
  }
  FigureData data;
  data.AddText("against", what);
  data.AddTexts("legend", labels);
  data.AddBlock("training", "seconds version loss", training);
  data.AddBlock("test", "seconds version loss", test);
  data.AddBlock("accuracy", "seconds version accuracy", accuracy);
  return data.Drawn(what, kCurvesScript);
}

double Sum(const std::vector<int64_t>& counts, size_t from) {
  double sum = 0;
  for (size_t s = from; s < counts.size(); ++s) {
    sum += static_cast<double>(counts[s]);
  }
  return sum;
}

// Bins of staleness: [0, width), [width, 2 width) and so on.
struct Bins {
  int64_t count = 0;
  int64_t width = 1;
  bool open = false;  // The last one holds more than `width` values.

  // Of all gradients, those in `bin`.
  double Share(const std::vector<int64_t>& counts, int64_t bin) const {
    const double rest = bin + 1 == count ? 0 : Sum(counts, (bin + 1) * width);
    return (Sum(counts, bin * width) - rest) / Sum(counts, 0);
  }
};

Bins BinsOf(const std::vector<LabelledRun>& runs) {
  int64_t shown = 0;
  int64_t all = 0;
  for (const LabelledRun& run : runs) {
    const std::vector<int64_t>& counts = run.curves.staleness;
    int64_t last = 0;
    while (Sum(counts, last + 1) > kTail * Sum(counts, 0)) ++last;
    if (!counts.empty()) shown = std::max(shown, last + 1);
    all = std::max(all, static_cast<int64_t>(counts.size()));
  }
  Bins bins;
  if (shown == 0) return bins;
  // A tail no longer than a bin is no tail.
  bins.width = (shown + kMostBins - 1) / kMostBins;
  bins.count = (shown + bins.width - 1) / bins.width;
  bins.open = all > bins.count * bins.width;
  return bins;
}

std::optional<Figure> StalenessFigure(const std::vector<LabelledRun>& runs) {
  const Bins bins = BinsOf(runs);
  if (bins.count == 0) return std::nullopt;
  std::vector<std::string> legend;
  std::vector<std::string> shares;
  for (const LabelledRun& run : runs) {
    const std::vector<int64_t>& counts = run.curves.staleness;
    std::string& rows = shares.emplace_back();
    if (counts.empty()) continue;
    for (int64_t bin = 0; bin < bins.count; ++bin) {
      absl::StrAppendFormat(&rows, "%d %.7g\n", bin,
                            100 * bins.Share(counts, bin));
    }
    legend.push_back(absl::StrFormat("%s (mean %.2f)", run.label,
                                     MeanStaleness(run.curves)));
  }
  FigureData data;
  data.AddTexts("legend", legend);
  data.AddNumber("bin_width", static_cast<double>(bins.width));
  data.AddNumber("last_is_open", bins.open);
  data.AddBlock("shares", "bin percentage", shares);
  return data.Drawn("staleness", kStalenessScript);
}

// In the order of Activity.
constexpr const char* kActivities[] = {"waits",   "applied",  "cancelled",
                                       "dropped", "rejected", "unfinished"};

const char* NameOf(Activity activity) {
  return kActivities[static_cast<int>(activity)];
}

std::string TitleOf(const LabelledRun& run, const ActivityTimeline& timeline) {
  std::string title = run.label;
  if (!absl::StrContains(title, run.run.policy)) {
    absl::StrAppend(&title, ": ", run.run.policy);
  }
  const auto shown = static_cast<int64_t>(timeline.workers.size());
  if (shown < timeline.all_workers) {
    absl::StrAppend(&title, ", ", shown, " of ", timeline.all_workers,
                    " workers");
  }
  return title;
}

// The bars, with what is waited first: those beside it are drawn over its ends.
std::string BarRows(ActivityTimeline timeline) {
  std::stable_sort(
      timeline.bars.begin(), timeline.bars.end(),
      [](const Bar& a, const Bar& b) { return a.activity < b.activity; });
  std::string rows;
  for (const Bar& bar : timeline.bars) {
    const auto row =
        std::find(timeline.workers.begin(), timeline.workers.end(), bar.worker);
    absl::StrAppendFormat(&rows, "%d %s %.7g %.7g %d\n",
                          row - timeline.workers.begin(), NameOf(bar.activity),
                          bar.begin, bar.end, bar.version);
  }
  return rows;
}

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

std::optional<Figure> TimelineFigure(const std::vector<LabelledRun>& runs,
                                     const FigureOptions& options) {
  const std::vector<double> ends = EndsOf(runs, options.updates);
  std::vector<std::string> titles;
  std::vector<std::string> workers;
  std::vector<double> shown_ends;
  std::vector<std::string> bars;
  std::vector<std::string> updates;
  std::set<Activity> seen;
  for (size_t r = 0; r < runs.size(); ++r) {
    if (ends[r] <= 0) continue;
    const ActivityTimeline timeline =
        TimelineOf(*runs[r].run.log, ends[r], options.workers);
    if (timeline.bars.empty()) continue;
    titles.push_back(TitleOf(runs[r], timeline));
    workers.push_back(absl::StrJoin(timeline.workers, " "));
    shown_ends.push_back(timeline.end);
    for (const Bar& bar : timeline.bars) seen.insert(bar.activity);
    bars.push_back(BarRows(timeline));
    std::string& rows = updates.emplace_back();
    for (const double at : timeline.updates) {
      absl::StrAppendFormat(&rows, "%.7g\n", at);
    }
  }
  if (bars.empty()) return std::nullopt;
  std::vector<std::string> activities;
  for (const Activity activity : seen) activities.push_back(NameOf(activity));
  FigureData data;
  data.AddTexts("panel_titles", titles);
  data.AddTexts("workers", workers);
  data.AddNumbers("ends", shown_ends);
  data.AddText("activities", absl::StrJoin(activities, " "));
  data.AddBlock("bars", "row activity begin end version", bars);
  data.AddBlock("updates", "seconds", updates);
  return data.Drawn("timeline", kTimelineScript);
}

}  // namespace

std::vector<Figure> FiguresOf(const std::vector<LabelledRun>& runs,
                              const FigureOptions& options) {
  std::vector<Figure> figures;
  for (std::optional<Figure> figure :
       {CurvesAgainst("time", runs), CurvesAgainst("version", runs),
        StalenessFigure(runs), TimelineFigure(runs, options)}) {
    if (figure.has_value()) figures.push_back(*std::move(figure));
  }
  return figures;
}

}  // namespace sluice
