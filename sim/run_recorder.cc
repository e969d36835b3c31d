// The commit log is written first, so a line of metrics never tells of an
// update that the log does not have.
#include "sim/run_recorder.h"

#include <optional>
#include <utility>
#include <variant>

#include "common/status_macros.h"
#include "ps_server/decisions/event_conversion.h"

namespace sluice {

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

}  // namespace sluice
