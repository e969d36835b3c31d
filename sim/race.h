#ifndef SLUICE_SIM_RACE_H_
#define SLUICE_SIM_RACE_H_

#include <optional>
#include <string>
#include <vector>

namespace sluice {

// Finds out which of many entrants reaches a target first, without running all
// of them to the end. Pure: says what is to be run, is told what came of it.
//
// First seed: successive halving (Karnin, Koren, Somekh 2013; Jamieson,
// Talwalkar 2016). All run to a horizon of virtual time, the better half goes
// on to twice the horizon, and so on until some have reached the target and the
// horizon is twice (kPatience) the first one's time; at least
// `Options::finalists` stay as long as they are in the race.
//
// Further seeds: racing (Maron, Moore 1994; Birattari et al. 2002). The rest
// run on one seed after the other, each to twice the time of the first there,
// and from the third seed on who is slower than the best is dropped.
//
// Slower, or a tie: all entrants meet the same seeds, which give them the same
// initial weights and draw for draw the same delays, so times are compared seed
// by seed (a paired t interval under common random numbers: Law, Simulation
// Modeling and Analysis, 10.2.1 and 11.2). Entrant a is slower than b when the
// 95% interval of the mean of log(time of a / time of b) over their common
// seeds lies above 0, and the mean difference is more than the time between two
// evaluations, finer than which nothing is known. One seed alone tells nothing
// apart. Not corrected for the number of comparisons.
//
// A time that was not reached by the horizon counts as the horizon, which
// flatters it.
//
// Not thread-safe.
class Race {
 public:
  static constexpr double kPatience = 2;
  static constexpr int kMostSeeds = 10;

  struct Options {
    int entrants = 0;
    int seeds = 5;             // 1 to kMostSeeds.
    double first_horizon = 1;  // Virtual seconds, above 0.
    int finalists = 8;
  };
  // Runs that are to be made: of these entrants, on seed number `seed` from 0
  // on, from their start until `horizon` virtual seconds, the target or their
  // own end.
  struct Heat {
    int seed = 0;
    double horizon = 0;
    std::vector<int> entrants;
  };
  // What came of one run.
  struct Trial {
    double horizon = 0;  // As the heat's.
    // When an evaluation found the target reached, and how long before that
    // the one before it, or the start, was.
    std::optional<double> reached;
    double resolution = 0;
    // The smallest error that an evaluation found; infinite without one.
    double error = 0;
    // It has ended or failed: with more time it would be the same.
    bool over = false;
  };
  enum class Standing {
    kRacing,        // To the end.
    kBehind,        // In the worse half at some horizon of the first seed.
    kNeverReaches,  // Ended on the first seed without reaching the target.
    kSlower,        // Than the best.
  };

  // REQUIRES: options within their bounds.
  explicit Race(const Options& options);

  // What is to be run next; null: the race is over.
  const Heat* heat() const { return over_ ? nullptr : &heat_; }
  // What came of the heat's runs, in the order of its entrants.
  // REQUIRES: heat() is not null.
  void Finish(const std::vector<Trial>& trials);

  // Of any moment, as far as heats have been finished:
  Standing standing(int entrant) const { return entrants_[entrant].standing; }
  // By seed, the longest run each.
  const std::vector<Trial>& trials(int entrant) const {
    return entrants_[entrant].trials;
  }
  // All entrants, best first: those that met more seeds, then those that have
  // reached the target on the first, then those that were run longer; among
  // equals those that missed it on fewer seeds, and by the geometric mean of the
  // times, or by error where the target was not reached.
  std::vector<int> Ranking() const;
  // Geometric mean of the times over the seeds; none when it did not reach the
  // target on each of them.
  std::optional<double> MeanTime(int entrant) const;
  // Whether `a` is slower than `b` by the rule above.
  bool Slower(int a, int b) const;
  // What was not run, for a person: "seeds 3 to 5 for 4 choices"; empty when
  // the race is over.
  std::string Untried() const;

 private:
  struct Entrant {
    Standing standing = Standing::kRacing;
    std::vector<Trial> trials;
  };

  std::vector<int> Racing() const;
  // On the seed of the heat.
  const Trial& Now(int entrant) const {
    return entrants_[entrant].trials[heat_.seed];
  }
  std::optional<double> FirstReached() const;
  void DropWorseHalf();
  void DropNotReached();
  void DropSlower();
  void BeginSeed(int seed);

  Options options_;  // Constant after construction.
  std::vector<Entrant> entrants_;
  Heat heat_;
  bool over_ = false;
};

}  // namespace sluice

#endif  // SLUICE_SIM_RACE_H_
