#ifndef SLUICE_PS_SERVER_LEAD_H_
#define SLUICE_PS_SERVER_LEAD_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/files/file_operations.h"
#include "common/job/resolved_job.h"
#include "ps_server/coordinator/log/run_files.h"
#include "ps_server/coordinator/session/coordinator_service.h"
#include "ps_server/resume.h"

namespace sluice {

// What shard 0 has beyond other shards: the coordinator's service, and the
// run folder's files: addresses, job.textproto (unless it is there),
// commit_log, metrics.jsonl, compute_times.txt, summary.json, and what makes
// checkpoints of the shards' files. Thread-compatible.
class Lead {
 public:
  // Takes the generation of run `run_id`. `run_dir` may be empty, unless the
  // job has checkpoints: then nothing is kept, and nothing recovers. With
  // `resumption` the run goes on from there, else it begins. `recovery`: what
  // else is known of the generations before.
  // kAlreadyExists: there has been a run in this folder. kPermissionDenied:
  // another process has taken the generation, or a later one. kUnavailable:
  // names the file.
  static absl::StatusOr<std::unique_ptr<Lead>> Create(
      const ResolvedJob& job, const std::string& run_dir,
      const std::optional<Resumption>& resumption,
      const RecoveryOptions& recovery, const std::string& run_id, Clock* clock);

  CoordinatorService* service() { return service_.get(); }
  // That was taken.
  Generation generation() const { return generation_; }

  // Writes the file `addresses`, with the shards once they are known.
  // kUnavailable, kResourceExhausted: names it. kPermissionDenied: another
  // process has taken a later generation.
  absl::Status WriteAddresses(const std::string& coordinator,
                              const std::vector<std::string>& shards);

  // Ends the service and writes what is left: the last line of metrics, where
  // the run is over the summary, and the commit log to the disk.
  // kUnavailable names the file. REQUIRES: called once; the server that offers
  // the service has been shut down.
  absl::Status Close(const GenerationEnd& end);

 private:
  explicit Lead(std::string run_id);

  // Constant after construction.
  const std::string run_id_;
  Generation generation_;

  // The run has been found to be another's.
  const std::unique_ptr<std::atomic<bool>> lost_ =
      std::make_unique<std::atomic<bool>>(false);

  FileOperations disk_;
  std::unique_ptr<RunFiles> files_;  // Null without a run folder.
  std::unique_ptr<CoordinatorService> service_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_LEAD_H_
