#ifndef SLUICE_SIM_ADVICE_RACE_H_
#define SLUICE_SIM_ADVICE_RACE_H_

#include <optional>
#include <string>
#include <vector>

namespace sluice {

// Finds which of many entrants reaches a target first, without running all of
// them to the end. Pure: heat() says which runs to make, Finish() takes their
// results.
//
// First seed: successive halving (Karnin, Koren, Somekh 2013; Jamieson,
// Talwalkar 2016). All entrants run to a horizon of virtual time, the better
// half runs on to twice that horizon, and so on. While fewer than would stay
// have an evaluation, all run on that can still get one. This ends when an
// entrant has reached the target and the others have had twice (kPatience) its
// time. Halving stops at `Options::finalists` entrants.
//
// Further seeds: racing (Maron, Moore 1994; Birattari et al. 2002). The
// remaining entrants run on one seed after the other, each to twice the time of
// the first to reach the target there. From the third seed on, entrants that
// are slower than the best are dropped. If each of the rest has then missed the
// target on some seed, they run on where they missed it, to twice the horizon
// and so on, until one has reached it on every seed.
//
// Slower, or a tie: all entrants meet the same seeds, which give them the same
// initial weights and the same delays, draw for draw. So times are compared
// seed by seed (a paired t interval under common random numbers: Law,
// Simulation Modeling and Analysis, 10.2.1 and 11.2). Entrant a is slower than
// b if
//
//   - the 95% interval of the mean of log(time of a / time of b) over their
//     common seeds lies above 0, and
//   - the mean difference is more than the time between two evaluations, which
//     limits how finely times are known.
//
// One seed alone tells no two entrants apart. There is no correction for the
// number of comparisons.
//
// An entrant that has not reached the target by its horizon counts with the
// horizon as its time. That is less than its true time.
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
  // The runs to make next: each of `entrants` on seed number `seed` (from 0),
  // from its start until `horizon` virtual seconds, the target, or its own end.
  struct Heat {
    int seed = 0;
    double horizon = 0;
    std::vector<int> entrants;
  };
  // The result of one run.
  struct Trial {
    double horizon = 0;  // That of the heat.
    // When an evaluation found the target reached, and how long before that the
    // previous evaluation (or the start) was.
    std::optional<double> reached;
    double resolution = 0;
    // The smallest error of any evaluation; infinite without one.
    double error = 0;
    // The run has ended or failed, so more time would not change it.
    bool over = false;
  };
  enum class Standing {
    kRacing,  // Still in the race.
    kBehind,  // It was in the worse half at some horizon of the first seed.
    kNeverReaches,  // Its run on the first seed ended without the target.
    kSlower,        // Slower than the best, by the rule above.
  };

  // REQUIRES: options within their bounds.
  explicit Race(const Options& options);

  // The runs to make next; null: the race is over.
  const Heat* heat() const { return over_ ? nullptr : &heat_; }
  // Takes the results of the heat's runs, in the order of its entrants.
  // REQUIRES: heat() is not null.
  void Finish(const std::vector<Trial>& trials);

  // The accessors below may be called at any time. They reflect the heats that
  // have been finished.
  Standing standing(int entrant) const { return entrants_[entrant].standing; }
  // By seed; the longest run on each.
  const std::vector<Trial>& trials(int entrant) const {
    return entrants_[entrant].trials;
  }
  // All entrants, best first. Entrants that met more seeds come first, then
  // those that reached the target on the first seed, then those that ran
  // longer. Ties are broken by the number of seeds on which the target was
  // missed, and then by the geometric mean of the times, or by the error if the
  // target was missed.
  std::vector<int> Ranking() const;
  // Geometric mean of the times over the seeds; empty if the entrant missed the
  // target on one of them.
  std::optional<double> MeanTime(int entrant) const;
  // Whether `a` is slower than `b` by the rule above.
  bool Slower(int a, int b) const;
  // What was not run, in words: "seeds 3 to 5 for 4 choices"; empty when the
  // race is over.
  std::string Untried() const;

 private:
  struct Entrant {
    Standing standing = Standing::kRacing;
    std::vector<Trial> trials;
  };

  std::vector<int> Racing() const;
  // The entrant's trial on the seed of the current heat.
  const Trial& Now(int entrant) const {
    return entrants_[entrant].trials[heat_.seed];
  }
  std::optional<double> FirstReached() const;
  void DropWorseHalf();
  void DropNotReached();
  void DropSlower();
  void BeginSeed(int seed);
  // After the last seed: the next heat of those that missed the target, if it
  // takes one.
  void RunOn();

  Options options_;  // Constant after construction.
  std::vector<Entrant> entrants_;
  Heat heat_;
  bool runs_on_ = false;  // All seeds have been run.
  bool over_ = false;
};

}  // namespace sluice

#endif  // SLUICE_SIM_ADVICE_RACE_H_
