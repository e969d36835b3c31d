#ifndef SLUICE_PS_SERVER_COORDINATOR_RUN_FILES_H_
#define SLUICE_PS_SERVER_COORDINATOR_RUN_FILES_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/resolved_job.h"
#include "ps_server/coordinator/commit_log_file.h"
#include "ps_server/coordinator/compute_times_writer.h"
#include "ps_server/coordinator/events.h"
#include "ps_server/coordinator/job_state.h"
#include "ps_server/coordinator/metrics_writer.h"

namespace sluice {

// What a run's coordinator leaves in the run folder, real or simulated:
// job.textproto, commit_log, metrics.jsonl, compute_times.txt, summary.json. Thread-compatible.
class RunFiles {
 public:
  // Makes the folder and opens the files; a job.textproto that is there stays.
  // kAlreadyExists: there has been a run in this folder. kUnavailable: names
  // the file.
  static absl::StatusOr<std::unique_ptr<RunFiles>> Create(
      const ResolvedJob& job, Generation generation,
      const std::string& run_dir);

  CommitLogWriter* log() { return log_.get(); }
  MetricsWriter* metrics() { return metrics_.get(); }
  ComputeTimesWriter* compute_times() { return compute_times_.get(); }

  // Writes the summary, the compute times that are left, and the commit log to
  // the disk.
  absl::Status Close(const JobState& state, const FinishRun& finish);

 private:
  RunFiles(const proto::Job& job, std::string run_dir);
  std::string Path(const std::string& name) const;

  // Constant after construction.
  const proto::Job job_;
  const std::string run_dir_;

  std::unique_ptr<CommitLogWriter> log_;
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<ComputeTimesWriter> compute_times_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_RUN_FILES_H_
