// How stale the applied gradients were.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/plot/figure_parts.h"

namespace sluice {
namespace {

constexpr int kPanelHeight = 230;
// So many groups of bars are still told apart.
constexpr int64_t kMostBins = 24;
// Their numbers have room below.
constexpr int64_t kMostNumbers = 12;
// The last group holds the tail: at most this share of any run's gradients,
// besides the group's own values.
constexpr double kTail = 0.05;

double Sum(const std::vector<int64_t>& counts, size_t from) {
  double sum = 0;
  for (size_t s = from; s < counts.size(); ++s) {
    sum += static_cast<double>(counts[s]);
  }
  return sum;
}

// The groups of bars: [0, width), [width, 2 width) and so on; the last one has
// no end.
struct Bins {
  int64_t count = 0;
  int64_t width = 1;
  bool open = false;  // The last one holds more than `width` values.

  // From `from` on, below the first value of the next one.
  double Share(const std::vector<int64_t>& counts, int64_t bin) const {
    const double rest = bin + 1 == count ? 0 : Sum(counts, (bin + 1) * width);
    return (Sum(counts, bin * width) - rest) / Sum(counts, 0);
  }

  std::string Name(int64_t bin) const {
    const int64_t first = bin * width;
    if (bin + 1 == count && open) return absl::StrCat("≥ ", first);
    if (width == 1) return absl::StrCat(first);
    return absl::StrCat(first, "–", first + width - 1);
  }

  // Those below the axis, as many as there is room for, the first and the last
  // one among them: the values of `set xtics`.
  std::string Tics() const {
    const int64_t every = (count + kMostNumbers - 1) / kMostNumbers;
    std::string tics;
    for (int64_t bin = 0; bin < count; ++bin) {
      const int64_t to_last = count - 1 - bin;
      if (to_last > 0 && (bin % every != 0 || to_last < every)) continue;
      absl::StrAppend(&tics, tics.empty() ? "" : ", ", "'", Name(bin), "' ",
                      bin);
    }
    return tics;
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

}  // namespace

std::optional<Figure> StalenessFigure(const std::vector<LabelledRun>& runs) {
  const Bins bins = BinsOf(runs);
  if (bins.count == 0) return std::nullopt;
  const auto drawn = std::count_if(
      runs.begin(), runs.end(),
      [](const LabelledRun& run) { return !run.curves.staleness.empty(); });
  // Bars of one group stand side by side, with some air to the next group.
  const double width = 0.85 / static_cast<double>(drawn);

  FigureScript script("staleness", "Staleness of the applied gradients");
  std::vector<std::string> plots;
  for (size_t r = 0; r < runs.size(); ++r) {
    const std::vector<int64_t>& counts = runs[r].curves.staleness;
    if (counts.empty()) continue;
    const double offset = (static_cast<double>(plots.size()) -
                           0.5 * static_cast<double>(drawn - 1)) *
                          width;
    std::vector<std::vector<double>> rows;
    for (int64_t bin = 0; bin < bins.count; ++bin) {
      rows.push_back(
          {static_cast<double>(bin) + offset, 100 * bins.Share(counts, bin)});
    }
    const std::string name = absl::StrCat("$staleness", r);
    const std::string fill = FillOf(static_cast<int>(r));
    script.AddData(DataBlock(name, rows));
    plots.push_back(
        absl::StrCat(name, " using 1:2 with boxes ", fill, " notitle"));
    script.AddLegend(absl::StrCat("with boxes ", fill),
                     absl::StrFormat("%s (mean %.2f)", runs[r].label,
                                     MeanStaleness(runs[r].curves)));
  }
  script.AddPanel("", kPanelHeight,
                  absl::StrCat("set xlabel 'staleness, versions'\n"
                               "set ylabel 'share of gradients, %'\n"
                               "set boxwidth ",
                               Drawn(width), "\nset yrange [0:*]\n",
                               "set xrange [-0.5:", bins.count, "-0.5]\n",
                               "set xtics (", bins.Tics(), ")\n"),
                  plots);
  return script.Finish();
}

}  // namespace sluice
