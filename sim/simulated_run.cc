// Puts the parts together: the simulation asks GradientWorkload for gradients
// and evaluations, shows its actions to the RunRecorder before they are carried
// out, and asks `reached` and `enough` when to stop. Without a folder nothing
// is recorded.
#include "sim/simulated_run.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/grant.h"
#include "common/job/resolved_job.h"
#include "common/status_macros.h"
#include "ps_server/coordinator/log/run_files.h"
#include "ps_server/coordinator/report/rate_meter.h"
#include "ps_server/decisions/event_conversion.h"
#include "sim/cluster_simulation.h"
#include "sim/local_training.h"
#include "sim/simulation_options_from_job.h"
#include "sim/workload.h"

namespace sluice {
namespace {

// The real weights and gradients of a simulated cluster. One trainer computes
// for all workers, each gradient at the slices that its worker has pulled. The
// slices are kept until then, as one copy of each version in use.
//
// pulled_[w] holds the slices of worker w's task from their Pulled until Ended,
// also after its task has been cancelled in the coordinator but before the
// worker knows. Computing late costs nothing but these references: a gradient
// is computed at the slices of its pull, however many updates have been made
// since.
//
// Not thread-safe: call from the thread that simulates.
class GradientWorkload final : public Workload {
 public:
  // `training` must outlive this.
  GradientWorkload(LocalTraining* training, int workers);

  void Pulled(WorkerId worker, ShardId shard) override;
  void Ended(WorkerId worker) override;
  absl::StatusOr<Computed> Compute(const Task& task) override;
  absl::StatusOr<std::vector<uint64_t>> Execute(
      ShardId shard, const Decision& decision) override;
  absl::StatusOr<Evaluation> Evaluate(const SendEvaluate& request) override;

  // Number of gradients computed.
  int64_t computed() const { return computed_; }

 private:
  LocalTraining& training_;
  std::vector<Snapshots> pulled_;  // By worker; null where nothing is held.
  int64_t computed_ = 0;
};

GradientWorkload::GradientWorkload(LocalTraining* training, int workers)
    : training_(*training), pulled_(workers, Snapshots(training->shards())) {}

void GradientWorkload::Pulled(WorkerId worker, ShardId shard) {
  pulled_[worker.value()][shard.value()] = training_.Newest(shard);
}

void GradientWorkload::Ended(WorkerId worker) {
  for (auto& snapshot : pulled_[worker.value()]) snapshot.reset();
}

absl::StatusOr<Workload::Computed> GradientWorkload::Compute(const Task& task) {
  ++computed_;
  // The simulated coordinator has drawn no secret.
  const std::string grant = GrantKey(/*secret=*/"").GrantFor(task.key);
  SLUICE_ASSIGN_OR_RETURN(const Trainer::Answer answer,
                          training_.Compute(TaskToProto(task, grant).task(),
                                            pulled_[task.key.worker.value()]));
  if (const auto* rejected = std::get_if<proto::Rejected>(&answer)) {
    return Computed{.samples = 0, .loss = 0, .rejected = rejected->reason()};
  }
  const auto& ready = std::get<proto::Ready>(answer);
  return Computed{
      .samples = ready.samples(), .loss = ready.loss(), .rejected = ""};
}

absl::StatusOr<std::vector<uint64_t>> GradientWorkload::Execute(
    ShardId shard, const Decision& decision) {
  SLUICE_ASSIGN_OR_RETURN(Shard::Executed executed,
                          training_.Execute(shard, decision));
  return std::move(executed.digests);
}

absl::StatusOr<Evaluation> GradientWorkload::Evaluate(
    const SendEvaluate& request) {
  Snapshots weights;
  for (int s = 0; s < training_.shards(); ++s) {
    SLUICE_ASSIGN_OR_RETURN(auto slice,
                            training_.At(ShardId(s), request.version));
    weights.push_back(std::move(slice));
  }
  return EvaluationFromProto(training_.Evaluate(
      EvaluateToProto(request).evaluate(), std::move(weights)));
}

// Writes a simulated run's folder like a real coordinator, with virtual time.
// The commit log is written first, so a line of metrics never tells of an
// update that the log does not have.
//
// Not thread-safe: call from the thread that simulates.
class RunRecorder {
 public:
  // Errors are those of RunFiles::Create.
  static absl::StatusOr<std::unique_ptr<RunRecorder>> Create(
      const ResolvedJob& job, const std::string& run_dir);

  // Writes the coordinator's decisions to the commit log, the compute times and
  // the metrics. For ClusterSimulation::Options::observer.
  absl::Status Record(const ClusterSimulation& simulation,
                      const Actions& actions);

  // Writes the last line of metrics and the summary. `finish`: how the run
  // ended.
  absl::Status Close(const ClusterSimulation& simulation,
                     const FinishRun& finish);

 private:
  RunRecorder(std::unique_ptr<RunFiles> files, absl::Duration metrics_every)
      : files_(std::move(files)), metrics_every_(metrics_every) {}

  absl::Status WriteMetrics(const ClusterSimulation& simulation,
                            const std::optional<Evaluation>& evaluation);

  // Constant after construction.
  const std::unique_ptr<RunFiles> files_;
  const absl::Duration metrics_every_;

  // The mean over the last five seconds, as in the coordinator's service.
  RateMeter meter_{absl::Seconds(5)};
  absl::Time next_metrics_ = absl::UnixEpoch();
};

absl::StatusOr<std::unique_ptr<RunRecorder>> RunRecorder::Create(
    const ResolvedJob& job, const std::string& run_dir) {
  SLUICE_ASSIGN_OR_RETURN(auto files,
                          RunFiles::Create(job, GenerationStart(), run_dir));
  return std::unique_ptr<RunRecorder>(new RunRecorder(
      std::move(files), absl::Seconds(job.job.output().metrics_every_s())));
}

absl::Status RunRecorder::Record(const ClusterSimulation& simulation,
                                 const Actions& actions) {
  if (actions.empty()) return absl::OkStatus();
  const absl::Time now = simulation.Now();
  const double seconds = absl::ToDoubleSeconds(now - absl::UnixEpoch());
  SLUICE_RETURN_IF_ERROR(files_->log()->Append(RecordsOf(actions, seconds)));
  SLUICE_RETURN_IF_ERROR(files_->compute_times()->Record(actions, seconds));
  for (const Action& action : actions) {
    const auto* evaluated = std::get_if<RecordEvaluation>(&action);
    if (evaluated == nullptr) continue;
    SLUICE_RETURN_IF_ERROR(WriteMetrics(simulation, evaluated->evaluation));
  }
  if (now < next_metrics_) return absl::OkStatus();
  next_metrics_ = now + metrics_every_;
  return WriteMetrics(simulation, std::nullopt);
}

absl::Status RunRecorder::WriteMetrics(
    const ClusterSimulation& simulation,
    const std::optional<Evaluation>& evaluation) {
  const JobState state = simulation.State();
  if (state.phase == Phase::kStarting) return absl::OkStatus();
  const Rates rates = meter_.Update(state, simulation.Now());
  return files_->metrics()->Write(MetricsLine(state, rates, evaluation));
}

absl::Status RunRecorder::Close(const ClusterSimulation& simulation,
                                const FinishRun& finish) {
  SLUICE_RETURN_IF_ERROR(WriteMetrics(simulation, std::nullopt));
  return files_->Close(simulation.State(), finish);
}

constexpr double kSecond = 1e9;  // In nanoseconds.

bool Reaches(const Evaluation& evaluation, const SimulationTarget& target) {
  if (!evaluation.error.empty()) return false;
  const bool accurate = target.accuracy.has_value() &&
                        evaluation.accuracy.value_or(0) >= *target.accuracy;
  return accurate ||
         (target.loss.has_value() && evaluation.loss <= *target.loss);
}

// Timing of the whole run, in which the first update is counted from the start.
Timing TimingOfAll(SimulationWindow window, int workers, const TaskUse& task) {
  window.commits.insert(window.commits.begin(), window.begin);
  return TimingOf(window, workers, task);
}

}  // namespace

absl::Status CheckTarget(const ResolvedJob& job,
                         const SimulationTarget& target) {
  if (!target.accuracy.has_value() && !target.loss.has_value()) {
    return absl::OkStatus();
  }
  if (job.job.model().has_external()) {
    return absl::InvalidArgumentError(
        "model.external: only the model process of a worker computes it; "
        "`simulate --timing-only` takes such a job, without a target");
  }
  const proto::Evaluation& evaluation = job.job.evaluation();
  if (!evaluation.enabled() || evaluation.every_epochs() <= 0) {
    return absl::InvalidArgumentError(
        "a target needs evaluation.enabled and evaluation.every_epochs above "
        "0");
  }
  if (target.loss.has_value() && !std::isfinite(*target.loss)) {
    return absl::InvalidArgumentError("the target loss is not a finite number");
  }
  if (target.accuracy.has_value() && !job.data.classification) {
    return absl::InvalidArgumentError(
        "a target accuracy needs labels, which the job's data does not have; "
        "name a target loss");
  }
  return absl::OkStatus();
}

absl::StatusOr<SimulatedRun> SimulateRun(const ResolvedJob& job,
                                         const SimulatedRunOptions& options) {
  SLUICE_RETURN_IF_ERROR(CheckTarget(job, options.target));
  SLUICE_ASSIGN_OR_RETURN(ClusterSimulation::Options made,
                          SimulationOptionsFromJob(job));
  const int workers = job.job.cluster().workers();
  const TaskUse task = MeanTask(made);
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
  run.timing = TimingOfAll(simulation.window(), workers, task);
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
