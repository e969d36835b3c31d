// Plays one Race: each heat of the race becomes a set of simulated runs, and
// the outcomes of these runs go back into the race.
//
// An entrant is one choice (policy and K) at one learning rate. Two choices at
// three rates, for example, are six entrants. The first heat runs all six on
// seed 0 for a quarter epoch or more, the next heat runs those that the race
// has kept for twice as long, and so on.
//
// Invariants:
//   - All runs of a heat share the seed and the open data splits, so that they
//     see the same initial weights, samples and delays. Only the choice
//     differs.
//   - A heat counts only if all of its runs were made. If `enough` cuts a heat
//     short, its outcomes are thrown away.
//   - A run that diverges ends its entrant, not the advice. Any other error of
//     a run is an error of the question and ends the advice.
#include "sim/advice/advice.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "sim/cluster_simulation.h"
#include "sim/simulation_options_from_job.h"
#include "worker/data/data_source.h"

namespace sluice {
namespace {

// The first heat lasts as long as a cluster that never waits takes for a
// quarter epoch, for two evaluations, and for several tasks of each worker,
// whichever is longest. A warm start comes on top: in it all policies do the
// same.
constexpr double kFirstEpochs = 0.25;
constexpr double kFirstEvaluations = 2;
constexpr double kFirstTasks = 8;

double FirstHorizon(const ResolvedJob& job, double evaluate_every,
                    const ClusterSimulation::Options& cluster) {
  const double round =
      MeanTask(cluster).seconds +
      cluster.network.MeanOfTask(cluster.pull_bytes, cluster.push_bytes);
  const auto samples_of_round =
      static_cast<double>(job.job.data().batch_size()) *
      job.job.sync().local_steps() * job.job.cluster().workers();
  const double epochs =
      std::max(kFirstEpochs, kFirstEvaluations * evaluate_every);
  const double rounds = std::max(
      kFirstTasks,
      epochs * static_cast<double>(job.data.train_samples) / samples_of_round);
  return (static_cast<double>(job.job.sync().warm_start_updates()) + rounds) *
         round;
}

double ErrorOf(const Evaluation& evaluation, const SimulationTarget& target) {
  const double error = target.accuracy.has_value()
                           ? 1 - evaluation.accuracy.value_or(0)
                           : evaluation.loss;
  // A NaN ranks behind every finite error.
  return std::isfinite(error) ? error : HUGE_VAL;
}

// Makes the runs of one advice.
class Advisor {
 public:
  explicit Advisor(const AdviceQuestion& question) : question_(question) {}

  absl::StatusOr<Advice> Run();

 private:
  // The result of one run. `cut`: the run was given up because of `enough`.
  struct Outcome {
    absl::Status status;
    Race::Trial trial;
    std::vector<SimulatedRun::Measured> curve;
    std::string failure;
    int64_t computed = 0, started = 0;
    bool cut = false;
  };

  absl::Status Enter(const ResolvedJob& job, Advice* advice);
  absl::StatusOr<ResolvedJob> JobOf(const AdviceEntrant& entrant,
                                    int seed) const;
  absl::Status OpenSplits(const ResolvedJob& job);
  std::vector<Outcome> RunHeat(const Race::Heat& heat, const Advice& advice);
  Outcome RunOne(const AdviceEntrant& entrant, const Race::Heat& heat) const;
  bool Enough() const {
    return question_.enough != nullptr && question_.enough();
  }

  const AdviceQuestion& question_;
  uint64_t first_seed_ = 0;
  // The data splits of seed `splits_seed_`, opened once for all runs of a heat.
  LocalTraining::Splits splits_;
  int splits_seed_ = -1;
};

absl::StatusOr<ResolvedJob> Advisor::JobOf(const AdviceEntrant& entrant,
                                           int seed) const {
  std::vector<std::string> overrides = entrant.overrides;
  overrides.push_back(
      absl::StrCat("evaluation.every_epochs=", question_.evaluate_every));
  overrides.push_back(absl::StrCat("seed=", first_seed_ + seed));
  overrides.insert(overrides.end(), question_.simulated.begin(),
                   question_.simulated.end());
  return question_.job(overrides);
}

// Adds an entrant for every valid choice and rate.
absl::Status Advisor::Enter(const ResolvedJob& job, Advice* advice) {
  SLUICE_RETURN_IF_ERROR(CheckKs(job.job, question_.range));
  const std::vector<double>& factors = question_.rate_factors;
  for (Choice& choice : ChoicesFor(job.job, question_.range)) {
    std::vector<AdviceEntrant> entrants;
    absl::Status refused;
    for (auto factor = factors.begin(); factor != factors.end(); ++factor) {
      const bool repeated =
          std::find(factors.begin(), factor, *factor) != factor;
      if (repeated) continue;
      AdviceEntrant entrant;
      entrant.choice = static_cast<int>(advice->choices.size());
      entrant.learning_rate = job.job.optimizer().learning_rate() * *factor;
      entrant.overrides = {
          absl::StrCat("sync={", FormatSyncLine(choice.sync), "}"),
          absl::StrFormat("optimizer.learning_rate=%.10g",
                          entrant.learning_rate)};
      refused.Update(JobOf(entrant, 0).status());
      entrants.push_back(std::move(entrant));
    }
    if (!refused.ok()) {
      advice->refused.emplace_back(std::move(choice),
                                   std::string(refused.message()));
      continue;
    }
    advice->choices.push_back(std::move(choice));
    advice->entrants.insert(advice->entrants.end(), entrants.begin(),
                            entrants.end());
  }
  if (!advice->choices.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      advice->refused.empty()
          ? "no policy and K of those asked for makes a choice of its own"
          : absl::StrCat(advice->refused[0].first.name, ": ",
                         advice->refused[0].second));
}

absl::Status Advisor::OpenSplits(const ResolvedJob& job) {
  splits_ = {};
  SLUICE_ASSIGN_OR_RETURN(
      splits_.train,
      OpenDataSource(job.job.data(), Split::kTrain, job.job.seed()));
  if (!job.job.evaluation().enabled()) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(
      splits_.test,
      OpenDataSource(job.job.data(), Split::kTest, job.job.seed()));
  return absl::OkStatus();
}

Advisor::Outcome Advisor::RunOne(const AdviceEntrant& entrant,
                                 const Race::Heat& heat) const {
  Outcome outcome;
  outcome.trial.horizon = heat.horizon;
  outcome.trial.error = HUGE_VAL;
  const absl::StatusOr<ResolvedJob> job = JobOf(entrant, heat.seed);
  if (!job.ok()) {
    outcome.status = job.status();
    return outcome;
  }
  bool timed_out = false;
  const auto enough = [&](double seconds) {
    outcome.cut = outcome.cut || Enough();
    timed_out = seconds >= heat.horizon;
    return outcome.cut || timed_out;
  };
  absl::StatusOr<SimulatedRun> run =
      SimulateRun(*job, {.run_dir = "",
                         .target = question_.target,
                         .enough = enough,
                         .splits = splits_});
  if (!run.ok()) {
    // The run diverged. It cannot reach the target, but the question is fine.
    outcome.trial.over = true;
    outcome.failure = std::string(run.status().message());
    if (!absl::IsInternal(run.status())) outcome.status = run.status();
    return outcome;
  }
  outcome.computed = run->computed;
  outcome.started = run->timing.started;
  // An evaluation beyond the horizon must not count, because the other entrants
  // of this heat were not given that time.
  outcome.trial.over = !timed_out && (!run->reached.has_value() ||
                                      run->reached->seconds <= heat.horizon);
  double before = 0;
  for (const SimulatedRun::Measured& measured : run->evaluations) {
    if (measured.seconds > heat.horizon) break;
    outcome.curve.push_back(measured);
    const double error = ErrorOf(measured.evaluation, question_.target);
    outcome.trial.error = std::min(outcome.trial.error, error);
    if (run->reached.has_value() && measured.seconds == run->reached->seconds) {
      outcome.trial.reached = measured.seconds;
      outcome.trial.resolution = measured.seconds - before;
      break;
    }
    before = measured.seconds;
  }
  return outcome;
}

std::vector<Advisor::Outcome> Advisor::RunHeat(const Race::Heat& heat,
                                               const Advice& advice) {
  std::vector<Outcome> outcomes(heat.entrants.size());
  const auto run = [&](int i) {
    outcomes[i].cut = Enough();
    if (outcomes[i].cut) return;
    outcomes[i] = RunOne(advice.entrants[heat.entrants[i]], heat);
  };
  const int runs = static_cast<int>(outcomes.size());
  if (question_.run_all != nullptr) {
    question_.run_all(runs, run);
  } else {
    for (int i = 0; i < runs; ++i) run(i);
  }
  return outcomes;
}

absl::StatusOr<Advice> Advisor::Run() {
  SLUICE_ASSIGN_OR_RETURN(const ResolvedJob job,
                          question_.job(question_.simulated));
  first_seed_ = job.job.seed();
  // Before the runs, which would all refuse what this refuses.
  SLUICE_ASSIGN_OR_RETURN(const ClusterSimulation::Options cluster,
                          SimulationOptionsFromJob(job));
  Advice advice;
  SLUICE_RETURN_IF_ERROR(Enter(job, &advice));
  advice.race = Race(
      {.entrants = static_cast<int>(advice.entrants.size()),
       .seeds = question_.seeds,
       .first_horizon = FirstHorizon(job, question_.evaluate_every, cluster),
       .finalists = question_.finalists});
  while (const Race::Heat* heat = advice.race.heat()) {
    if (question_.begins != nullptr) question_.begins(*heat);
    if (splits_seed_ != heat->seed) {
      SLUICE_ASSIGN_OR_RETURN(const ResolvedJob seeded,
                              JobOf(advice.entrants[0], heat->seed));
      SLUICE_RETURN_IF_ERROR(OpenSplits(seeded));
      splits_seed_ = heat->seed;
    }
    const std::vector<Outcome> outcomes = RunHeat(*heat, advice);
    std::vector<Race::Trial> trials;
    bool cut = false;
    for (size_t i = 0; i < outcomes.size(); ++i) {
      const Outcome& outcome = outcomes[i];
      SLUICE_RETURN_IF_ERROR(outcome.status);
      cut |= outcome.cut;
      trials.push_back(outcome.trial);
      advice.computed += outcome.computed;
      advice.started += outcome.started;
    }
    // Using half a heat would favour the entrants whose runs were made.
    if (cut) break;
    for (size_t i = 0; i < outcomes.size(); ++i) {
      AdviceEntrant& entrant = advice.entrants[heat->entrants[i]];
      if (heat->seed == 0) entrant.curve = outcomes[i].curve;
      if (!outcomes[i].failure.empty()) entrant.failure = outcomes[i].failure;
    }
    advice.race.Finish(trials);
  }
  return advice;
}

}  // namespace

std::vector<int> Advice::BestOfEachChoice() const {
  std::vector<int> best;
  std::set<int> seen;
  for (const int e : race.Ranking()) {
    if (seen.insert(entrants[e].choice).second) best.push_back(e);
  }
  return best;
}

std::optional<int> Advice::Recommended() const {
  const std::vector<int> best = BestOfEachChoice();
  if (best.empty() || !race.MeanTime(best[0]).has_value()) return std::nullopt;
  return best[0];
}

absl::StatusOr<Advice> Advise(const AdviceQuestion& question) {
  return Advisor(question).Run();
}

}  // namespace sluice
