#ifndef SLUICE_PS_SERVER_COORDINATOR_SESSION_FINISHED_RUN_H_
#define SLUICE_PS_SERVER_COORDINATOR_SESSION_FINISHED_RUN_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/session/coordinator_endpoint.h"
#include "ps_server/coordinator/session/job_agreement.h"

namespace sluice {

// Answers for a run that has reached its end, when the coordinator that ended
// it died before everybody had heard: whoever joins, or resumes a session, is
// welcomed and told to finish; another job's process is refused. Keeps nothing.
// Thread-safe.
class FinishedRun final : public CoordinatorEndpoint::Handler {
 public:
  // `reason`: as of Finish.
  FinishedRun(JobAgreement job, std::string reason)
      : job_(std::move(job)), reason_(std::move(reason)) {}

  // CoordinatorEndpoint::Handler:
  void OnFrame(SessionStream* stream,
               const proto::ToCoordinator& frame) override;
  void OnBroken(SessionStream* stream) override {}
  // kUnavailable: no coordinator decides any more.
  absl::Status CheckRun(const std::string& run_id) override;
  proto::JobStatus OnGetStatus() override { return {}; }
  void OnStop(const proto::StopRequest& request) override {}
  absl::StatusOr<proto::CheckpointReply> OnRequestCheckpoint() override;
  // Nobody's death matters any more.
  absl::Status OnReportDeath(const proto::DeathReport& report) override;

 private:
  const JobAgreement job_;
  const std::string reason_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_SESSION_FINISHED_RUN_H_
