#ifndef SLUICE_PS_SERVER_COORDINATOR_LOG_RUN_FILES_H_
#define SLUICE_PS_SERVER_COORDINATOR_LOG_RUN_FILES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/ids.h"
#include "common/job/resolved_job.h"
#include "ps_server/coordinator/core/job_state.h"
#include "ps_server/coordinator/log/commit_log_file.h"
#include "ps_server/coordinator/log/worker_time.h"
#include "ps_server/coordinator/report/compute_times_writer.h"
#include "ps_server/coordinator/report/metrics_writer.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// Which generation of a run begins.
struct GenerationStart {
  Generation generation{1};
  // What it goes on from; 0 for the first.
  Generation parent;
  Version restored;
  // What the run has come to: tasks issued, and versions decided and rolled
  // back, with this rollback.
  int64_t tasks = 0;
  int64_t updates_lost = 0;
  // Why the one before it ended, as far as it is known.
  std::string reason = {};
  std::string run_id = {};
  // What the run has agreed to compute with; unspecified: nothing yet.
  proto::InstructionSet instruction_set = proto::INSTRUCTION_SET_UNSPECIFIED;
  // What it began with (LogInputs); empty: not known yet.
  std::map<std::string, std::string> inputs = {};
};

// What a run's coordinator leaves in the run folder, real or simulated:
// addresses, job.textproto, commit_log (or commit_log-N of generation N),
// metrics.jsonl, compute_times.txt, summary.json. Thread-compatible, but for
// what says otherwise.
class RunFiles {
 public:
  // Makes the folder and takes the generation: its commit log, created here and
  // nowhere else, is on the disk. The first keeps a job.textproto that is
  // there; a later one puts its own in the place, and goes on with metrics and
  // compute times. kAlreadyExists: it is the first, and there is a run in the
  // folder. kPermissionDenied: another process has taken it, or a later
  // one. kUnavailable: names the file; kResourceExhausted: there is no room.
  // After an error the generation has not been taken.
  static absl::StatusOr<std::unique_ptr<RunFiles>> Create(
      const ResolvedJob& job, const GenerationStart& start,
      const std::string& run_dir);

  CommitLogWriter* log() { return log_.get(); }
  MetricsWriter* metrics() { return metrics_.get(); }
  ComputeTimesWriter* compute_times() { return compute_times_.get(); }

  // As ProveClaim, of this generation. From any thread.
  absl::Status Prove() const;

  // Writes RUN/addresses, where the run is still this generation's
  // (kPermissionDenied: it is not). From any thread.
  absl::Status WriteAddresses(const std::string& text) const;

  // Call before the generation's first update: removes what an earlier end of
  // the run left, summary.json and weights.safetensors. One that comes to no
  // update leaves them. kPermissionDenied: they may be a later generation's.
  absl::Status GoesOn();

  // Writes the commit log to the disk, and then the summary, where the run is
  // still this generation's (kPermissionDenied: it is not). Of a run that was
  // stopped, the farewell begins.
  absl::Status WriteSummary(const JobState& state, const FinishRun& finish);
  // Writes what is left: the commit log, the compute times and, where the run
  // is over and it has not been written, the summary; not that of a failure in
  // the place of an earlier end's. The farewell is over.
  absl::Status Close(const JobState& state,
                     const std::optional<FinishRun>& finish);

 private:
  RunFiles(const proto::Job& job, Generation generation, std::string run_dir);
  std::string Path(const std::string& name) const;
  // Nothing: the logs are long, or cannot be read.
  std::optional<WorkerSeconds> MeasureTime() const;
  absl::Status TakeGeneration(const std::string& job_fingerprint,
                              const std::vector<int64_t>& base_begin,
                              const GenerationStart& start);
  // All but the commit log.
  absl::Status MakeOthers(Generation generation);

  // Constant after construction.
  const proto::Job job_;
  const Generation generation_;
  const std::string run_dir_;

  // Two proofs at once would each find the other's name gone. Leaf lock.
  mutable absl::Mutex proof_mu_;

  std::unique_ptr<CommitLogWriter> log_;
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<ComputeTimesWriter> compute_times_;
  // Not this generation's: an earlier end's results are there.
  bool has_earlier_summary_ = false;
  bool has_summary_ = false;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_LOG_RUN_FILES_H_
