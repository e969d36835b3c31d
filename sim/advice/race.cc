// Invariants: heat_ holds only entrants whose standing is kRacing, and a
// standing other than kRacing never changes again. Every heat runs its entrants
// from the start, so a longer trial replaces the shorter one of the same
// entrant and seed.
//
// Example with 8 entrants, 2 finalists, a first horizon of 1 s and 5 seeds:
//
//   seed 0   all 8 run to 1 s, the best 4 to 2 s, the best 2 to 4 s and to 8 s.
//            One of them reaches the target at 5 s. The other one runs until
//            2 * 5 = 10 s. If it does not reach the target, it is kBehind and
//            the race is over.
//   seed 1   both run to 2 * 5 = 10 s, or longer if neither is there by then.
//   seed 2   the same; from here on the slower one is dropped if the paired
//            interval says so.
//   then     if one missed the target on seed 3, at 6 s, and the other on seed
//            4, at 8 s, the one runs on seed 3 to 12 s. If it is there by then,
//            it has a time on every seed, and the race is over; if not, the
//            other one runs on seed 4 to 16 s.
#include "sim/advice/race.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <limits>
#include <numeric>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// Fewer seeds than these are not enough to drop an entrant as slower.
constexpr int kSeedsToDrop = 3;

// Student's t for a two-sided 95% interval, starting at one degree of freedom.
constexpr double kStudent[Race::kMostSeeds - 1] = {
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262};

double TimeOf(const Race::Trial& trial) {
  return trial.reached.value_or(trial.horizon);
}

// Smaller is better. Entrants that reached the target are ordered by their time
// and come before the others, which are ordered by their error. Then come those
// that have no error yet, and last those whose run has ended without one.
struct Rank {
  bool missed = false;
  double time_or_error = 0;
  bool never_has_one = false;

  auto operator<=>(const Rank&) const = default;
};

Rank RankOf(const Race::Trial& trial) {
  if (trial.reached.has_value()) return {false, *trial.reached, false};
  return {true, trial.error, trial.over && !std::isfinite(trial.error)};
}

}  // namespace

Race::Race(const Options& options)
    : options_(options), entrants_(options.entrants) {
  SLUICE_CHECK(options.seeds >= 1 && options.seeds <= kMostSeeds);
  SLUICE_CHECK(options.first_horizon > 0 && options.finalists >= 1);
  heat_ = {0, options.first_horizon, Racing()};
  over_ = heat_.entrants.empty();
}

std::vector<int> Race::Racing() const {
  std::vector<int> racing;
  for (int e = 0; e < options_.entrants; ++e) {
    if (standing(e) == Standing::kRacing) racing.push_back(e);
  }
  return racing;
}

std::optional<double> Race::FirstReached() const {
  std::optional<double> first;
  for (const int e : Racing()) {
    const std::optional<double>& reached = Now(e).reached;
    if (!reached.has_value()) continue;
    first = std::min(first.value_or(*reached), *reached);
  }
  return first;
}

void Race::Finish(const std::vector<Trial>& trials) {
  SLUICE_CHECK(!over_ && trials.size() == heat_.entrants.size());
  for (size_t i = 0; i < trials.size(); ++i) {
    auto& all = entrants_[heat_.entrants[i]].trials;
    all.resize(std::max<size_t>(all.size(), heat_.seed + 1));
    all[heat_.seed] = trials[i];
  }
  if (heat_.seed == 0) DropWorseHalf();
  const std::optional<double> first = FirstReached();
  const double horizon =
      first.has_value() ? kPatience * *first : kPatience * heat_.horizon;
  std::vector<int> longer;
  for (const int e : Racing()) {
    const Trial& trial = Now(e);
    if (!trial.reached.has_value() && !trial.over && trial.horizon < horizon) {
      longer.push_back(e);
    }
  }
  if (!longer.empty()) {
    heat_ = {heat_.seed, horizon, std::move(longer)};
    return;
  }
  if (runs_on_) return RunOn();
  if (heat_.seed == 0) DropNotReached();
  if (heat_.seed + 1 >= kSeedsToDrop) DropSlower();
  BeginSeed(heat_.seed + 1);
}

void Race::BeginSeed(int seed) {
  std::vector<int> racing = Racing();
  if (seed >= options_.seeds || racing.size() <= 1) return RunOn();
  double first = std::numeric_limits<double>::infinity();
  for (const int e : racing) {
    first = std::min(first, TimeOf(entrants_[e].trials[0]));
  }
  heat_ = {seed, kPatience * first, std::move(racing)};
}

void Race::RunOn() {
  runs_on_ = true;
  over_ = true;
  std::optional<Heat> next;
  for (const int e : Racing()) {
    if (MeanTime(e).has_value()) return;
    for (size_t s = 0; s < trials(e).size(); ++s) {
      const Trial& trial = trials(e)[s];
      if (trial.reached.has_value() || trial.over) continue;
      const Heat heat = {static_cast<int>(s), kPatience * trial.horizon, {e}};
      if (!next.has_value() || heat.horizon < next->horizon) {
        next = heat;
      } else if (heat.seed == next->seed && heat.horizon == next->horizon) {
        next->entrants.push_back(e);
      }
    }
  }
  if (!next.has_value()) return;
  heat_ = *std::move(next);
  over_ = false;
}

void Race::DropWorseHalf() {
  std::vector<int> racing = Racing();
  const int stay = std::max<int>(options_.finalists, (racing.size() + 1) / 2);
  if (static_cast<int>(racing.size()) <= stay) return;
  std::stable_sort(racing.begin(), racing.end(), [this](int a, int b) {
    return RankOf(Now(a)) < RankOf(Now(b));
  });
  // An entrant that ties with the last one that stays is kept too. So where
  // fewer have an error than may stay, nobody goes who may still get one:
  // nothing is known of them.
  const Rank last = RankOf(Now(racing[stay - 1]));
  for (size_t i = stay; i < racing.size(); ++i) {
    if (RankOf(Now(racing[i])) == last && !last.never_has_one) continue;
    entrants_[racing[i]].standing = Standing::kBehind;
  }
}

void Race::DropNotReached() {
  for (const int e : Racing()) {
    const Trial& trial = Now(e);
    if (trial.reached.has_value()) continue;
    entrants_[e].standing =
        trial.over ? Standing::kNeverReaches : Standing::kBehind;
  }
}

void Race::DropSlower() {
  const int best = Ranking().front();
  for (const int e : Racing()) {
    if (Slower(e, best)) entrants_[e].standing = Standing::kSlower;
  }
}

bool Race::Slower(int a, int b) const {
  const std::vector<Trial>&of_a = trials(a), &of_b = trials(b);
  const int seeds = static_cast<int>(std::min(of_a.size(), of_b.size()));
  if (seeds < 2) return false;
  double sum = 0, squares = 0, difference = 0, resolution = 0;
  for (int s = 0; s < seeds; ++s) {
    const double log_ratio = std::log(TimeOf(of_a[s]) / TimeOf(of_b[s]));
    sum += log_ratio;
    squares += log_ratio * log_ratio;
    difference += TimeOf(of_a[s]) - TimeOf(of_b[s]);
    resolution += std::max(of_a[s].resolution, of_b[s].resolution);
  }
  const double mean = sum / seeds;
  const double variance =
      std::max(0.0, squares / seeds - mean * mean) / (seeds - 1);
  return mean > kStudent[seeds - 2] * std::sqrt(variance) &&
         difference > resolution;
}

std::optional<double> Race::MeanTime(int entrant) const {
  double sum = 0;
  for (const Trial& trial : trials(entrant)) {
    if (!trial.reached.has_value()) return std::nullopt;
    sum += std::log(*trial.reached);
  }
  const auto seeds = trials(entrant).size();
  if (seeds == 0) return std::nullopt;
  return std::exp(sum / static_cast<double>(seeds));
}

std::vector<int> Race::Ranking() const {
  const auto key = [this](int e) {
    const std::vector<Trial>& all = trials(e);
    int missed = 0;
    double logs = 0, horizon = 0, error = 0;
    for (const Trial& trial : all) {
      missed += !trial.reached.has_value();
      logs += std::log(TimeOf(trial)) / static_cast<double>(all.size());
    }
    if (!all.empty()) {
      // Entrants that reached the target form one group. The others are ordered
      // by how far they ran.
      const bool reached = all[0].reached.has_value();
      horizon = reached ? -HUGE_VAL : -all[0].horizon;
      error = reached ? 0 : all[0].error;
    }
    return std::tuple(-static_cast<int>(all.size()), horizon, missed, error,
                      logs);
  };
  std::vector<int> ranking(options_.entrants);
  std::iota(ranking.begin(), ranking.end(), 0);
  std::stable_sort(ranking.begin(), ranking.end(),
                   [&](int a, int b) { return key(a) < key(b); });
  return ranking;
}

std::string Race::Untried() const {
  if (over_) return "";
  const size_t left = heat_.entrants.size();
  const std::string entrants =
      absl::StrCat(left, left == 1 ? " choice" : " choices", " at a rate");
  if (heat_.seed == 0) {
    return absl::StrCat("the first seed beyond ",
                        trials(heat_.entrants[0]).empty()
                            ? 0
                            : trials(heat_.entrants[0])[0].horizon,
                        " s for ", entrants, ", and the further seeds");
  }
  if (runs_on_) {
    return absl::StrCat("seed ", heat_.seed + 1, " beyond ",
                        heat_.horizon / kPatience, " s for ", entrants);
  }
  return absl::StrCat("seeds ", heat_.seed + 1, " to ", options_.seeds, " for ",
                      entrants);
}

}  // namespace sluice
