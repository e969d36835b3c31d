#ifndef SLUICE_SIM_RUN_RECORDER_H_
#define SLUICE_SIM_RUN_RECORDER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/resolved_job.h"
#include "ps_server/coordinator/log/run_files.h"
#include "ps_server/coordinator/report/rate_meter.h"
#include "sim/cluster_simulation.h"

namespace sluice {

// Writes a simulated run's folder like a real coordinator, with virtual time.
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

}  // namespace sluice

#endif  // SLUICE_SIM_RUN_RECORDER_H_
