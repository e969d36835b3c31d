#ifndef SLUICE_SIM_ADVICE_ADVICE_H_
#define SLUICE_SIM_ADVICE_ADVICE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/job/resolved_job.h"
#include "sim/advice/choices.h"
#include "sim/advice/race.h"
#include "sim/simulated_run.h"

namespace sluice {

// The input of Advise.
struct AdviceQuestion {
  // Loads the job with these overrides ("a.b=c") besides its own. Errors are
  // those of LoadJob. Called on the thread that makes the run.
  std::function<absl::StatusOr<ResolvedJob>(const std::vector<std::string>&)>
      job;
  SimulationTarget target;  // At least one of its two fields is set.
  ChoiceRange range;
  // Each choice is tried at the job's learning rate times each of these
  // factors.
  std::vector<double> rate_factors = {0.5, 1, 2};
  int seeds = 5;  // From the job's seed upwards; 1 to Race::kMostSeeds.
  // As in Race::Options.
  int finalists = 8;
  // Epochs between two evaluations. It limits how finely times are known.
  double evaluate_every = 0.1;
  // Calls run(i) once for each i from 0 to n - 1, in any order and from any
  // thread, and returns when all calls have returned. A call changes the
  // numeric mode of its thread. The advice does not depend on the order. If
  // unset, the runs are made one after the other on the calling thread.
  std::function<void(int n, const std::function<void(int)>& run)> run_all;
  // Overrides that only the simulated jobs get, such as measured delays.
  std::vector<std::string> simulated;
  // Called often, from any thread. Once it returns true, Advise stops and
  // returns what it has. Unset: never.
  std::function<bool()> enough;
  // Called before each heat, for progress reports.
  std::function<void(const Race::Heat&)> begins;
};

// One choice at one learning rate.
struct AdviceEntrant {
  int choice = 0;  // Index into Advice::choices.
  double learning_rate = 0;
  // The evaluations of the longest run on the first seed.
  std::vector<SimulatedRun::Measured> curve;
  std::string failure;  // The reason why a run failed; empty if none did.

  // The overrides that turn the user's job into this entrant.
  std::vector<std::string> overrides;
};

struct Advice {
  std::vector<Choice> choices;
  // Choices that do not make a valid job, with the reason.
  std::vector<std::pair<Choice, std::string>> refused;
  std::vector<AdviceEntrant> entrants;
  Race race{Race::Options()};  // By entrant.
  // Totals over all runs: gradients computed, and tasks started.
  int64_t computed = 0;
  int64_t started = 0;

  // For each choice that was tried, the index of its best entrant; best first.
  std::vector<int> BestOfEachChoice() const;
  // The index of the best entrant; empty if it missed the target on some seed.
  std::optional<int> Recommended() const;
};

// Simulates the job under each policy and K of the range, with real gradients,
// and ranks them by the time to the target (see Race). The same question gives
// the same advice, unless `enough` ends it early.
//
// Memory: one copy of the data, and one simulated cluster for each run that
// `run_all` has under way.
//
// kInvalidArgument: no choice of the range makes a valid job (the message says
// why), or the job does not measure what the target needs. Also errors of
// SimulationOptionsFromJob and of the job's files. A simulated run that
// diverges is not an error.
absl::StatusOr<Advice> Advise(const AdviceQuestion& question);

}  // namespace sluice

#endif  // SLUICE_SIM_ADVICE_ADVICE_H_
