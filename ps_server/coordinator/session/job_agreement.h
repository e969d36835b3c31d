#ifndef SLUICE_PS_SERVER_COORDINATOR_SESSION_JOB_AGREEMENT_H_
#define SLUICE_PS_SERVER_COORDINATOR_SESSION_JOB_AGREEMENT_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "proto/coordinator.pb.h"

namespace sluice {

// Whether a process that joins is of the coordinator's job. It needs nothing
// else, so that nobody waits for a lock while a stranger's job is parsed.
// Immutable, therefore thread-safe.
class JobAgreement {
 public:
  // As in a Join (common/job/resolved_job.h).
  JobAgreement(std::string fingerprint, std::string job_text)
      : fingerprint_(std::move(fingerprint)), job_text_(std::move(job_text)) {}

  // kFailedPrecondition: another job, build or data; names the first
  // difference, if `join` has a job of a size like this one's.
  // kInvalidArgument: no role and id of a process.
  absl::Status Check(const proto::Join& join) const;

 private:
  const std::string fingerprint_;
  const std::string job_text_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_SESSION_JOB_AGREEMENT_H_
