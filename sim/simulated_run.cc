// Puts the parts together: the simulation asks GradientWorkload for gradients
// and evaluations, shows its actions to the RunRecorder before they are carried
// out, and asks `reached` and `enough` when to stop. Without a folder nothing
// is recorded.
#include "sim/simulated_run.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "sim/gradient_workload.h"
#include "sim/run_recorder.h"
#include "sim/simulation_options_from_job.h"

namespace sluice {
namespace {

constexpr double kSecond = 1e9;  // In nanoseconds.

absl::Status CheckTarget(const ResolvedJob& job,
                         const SimulationTarget& target) {
  if (!target.accuracy.has_value() && !target.loss.has_value()) {
    return absl::OkStatus();
  }
  const proto::Evaluation& evaluation = job.job.evaluation();
  if (!evaluation.enabled() || evaluation.every_epochs() <= 0) {
    return absl::InvalidArgumentError(
        "a target needs evaluation.enabled and evaluation.every_epochs above "
        "0");
  }
  if (target.accuracy.has_value() && !job.data.classification) {
    return absl::InvalidArgumentError(
        "a target accuracy needs labels, which the job's data does not have; "
        "name a target loss");
  }
  return absl::OkStatus();
}

bool Reaches(const Evaluation& evaluation, const SimulationTarget& target) {
  if (!evaluation.error.empty()) return false;
  const bool accurate = target.accuracy.has_value() &&
                        evaluation.accuracy.value_or(0) >= *target.accuracy;
  return accurate ||
         (target.loss.has_value() && evaluation.loss <= *target.loss);
}

// Timing of the whole run, in which the first update is counted from the start.
Timing TimingOfAll(SimulationWindow window, int workers, double task_seconds) {
  if (window.commits.empty()) return {};
  window.commits.insert(window.commits.begin(), window.begin);
  return TimingOf(window, workers, task_seconds);
}

}  // namespace

absl::StatusOr<SimulatedRun> SimulateRun(const ResolvedJob& job,
                                         const SimulatedRunOptions& options) {
  SLUICE_RETURN_IF_ERROR(CheckTarget(job, options.target));
  SLUICE_ASSIGN_OR_RETURN(ClusterSimulation::Options made,
                          SimulationOptionsFromJob(job));
  const int workers = job.job.cluster().workers();
  const double task_seconds =
      made.compute.Mean() * made.coordinator.job.sync().local_steps();
  const std::string& folder = options.run_dir;
  SLUICE_ASSIGN_OR_RETURN(
      const auto training,
      LocalTraining::Create(
          job,
          folder.empty() ? "" : absl::StrCat(folder, "/weights.safetensors"),
          options.splits));
  GradientWorkload workload(training.get(), workers);
  std::unique_ptr<RunRecorder> recorder;
  if (!folder.empty()) {
    SLUICE_ASSIGN_OR_RETURN(recorder, RunRecorder::Create(job, folder));
    made.observer = [&](const ClusterSimulation& simulation,
                        const Actions& actions) {
      return recorder->Record(simulation, actions);
    };
  }
  SimulatedRun run;
  made.workload = &workload;
  made.reached = [&](const Evaluation& evaluation, VirtualTime now) {
    run.evaluations.push_back({static_cast<double>(now) / kSecond, evaluation});
    if (run.reached.has_value() || !Reaches(evaluation, options.target)) {
      return false;
    }
    run.reached = run.evaluations.back();
    return true;
  };
  ClusterSimulation simulation(std::move(made));
  const absl::Status ran = simulation.Run([&] {
    return options.enough != nullptr &&
           options.enough(static_cast<double>(simulation.now()) / kSecond);
  });
  run.timing = TimingOfAll(simulation.window(), workers, task_seconds);
  run.state = simulation.State();
  run.computed = workload.computed();
  if (recorder != nullptr) {
    FinishRun finish{std::string(ran.message()), ""};
    if (ran.ok()) finish.reason = run.state.message;
    SLUICE_RETURN_IF_ERROR(recorder->Close(simulation, finish));
  }
  SLUICE_RETURN_IF_ERROR(ran);
  return run;
}

}  // namespace sluice
