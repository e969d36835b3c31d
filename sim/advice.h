#ifndef SLUICE_SIM_ADVICE_H_
#define SLUICE_SIM_ADVICE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/resolved_job.h"
#include "sim/choices.h"
#include "sim/race.h"
#include "sim/simulated_run.h"

namespace sluice {

// What an Advisor is asked.
struct AdviceQuestion {
  // The job with these overrides ("a.b=c") besides its own. Errors as
  // LoadJob's. Called where the runs are.
  std::function<absl::StatusOr<ResolvedJob>(const std::vector<std::string>&)>
      job;
  SimulationTarget target;  // One of them at least.
  ChoiceRange range;
  // Each choice is tried at the job's rate times each of these.
  std::vector<double> rate_factors = {0.5, 1, 2};
  int seeds = 5;  // The job's and those after it; 1 to Race::kMostSeeds.
  // As in Race::Options.
  int finalists = 8;
  // Epochs between two evaluations: how fine times are.
  double evaluate_every = 0.1;
  // Calls run(i) once for each i from 0 to n - 1, in any order and from any
  // thread, whose numeric mode it changes, and returns when all have returned.
  // What comes out does not depend on how. Unset: one after the other, here.
  std::function<void(int n, const std::function<void(int)>& run)> run_all;
  // Overrides of the simulated jobs alone, as measured delays.
  std::vector<std::string> simulated;
  // Asked often, from any thread; true: stop with what there is. Unset: never.
  std::function<bool()> enough;
  // Told before each heat, for people who wait.
  std::function<void(const Race::Heat&)> begins;
};

// One choice at one rate.
struct AdviceEntrant {
  int choice = 0;  // In Advice::choices.
  double learning_rate = 0;
  // What evaluations found on the first seed, on the longest run.
  std::vector<SimulatedRun::Measured> curve;
  std::string failure;  // Why a run of it failed; empty: none did.

  // What is to be set in the job for it, and nothing else.
  std::vector<std::string> overrides;
};

struct Advice {
  std::vector<Choice> choices;
  // Choices whose job is not valid, with the reason.
  std::vector<std::pair<Choice, std::string>> refused;
  std::vector<AdviceEntrant> entrants;
  Race race{Race::Options()};  // By entrant.
  // Of all runs: gradients that were computed, tasks that were started.
  int64_t computed = 0;
  int64_t started = 0;

  // Of each choice that entered, its entrant that ranks first; best first.
  std::vector<int> BestOfEachChoice() const;
  // The entrant that comes first; none when it did not reach the target on
  // every seed.
  std::optional<int> Recommended() const;
};

// Simulates the job under one policy and K after the other, gradients and all,
// and says which reaches the target first (Race has the rules). The same
// question gives the same advice, unless `enough` ends it.
//
// Memory: the data once, and a simulated cluster for each run that `run_all`
// has under way.
//
// kInvalidArgument: no job of the range is valid (says why), or the target
// needs what the job does not measure; errors of SimulationOptionsFromJob and
// of the job's files. A simulated run that diverges is no error.
absl::StatusOr<Advice> Advise(const AdviceQuestion& question);

}  // namespace sluice

#endif  // SLUICE_SIM_ADVICE_H_
