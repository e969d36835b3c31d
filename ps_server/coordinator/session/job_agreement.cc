#include "ps_server/coordinator/session/job_agreement.h"

#include "absl/strings/str_cat.h"
#include "common/resolved_job.h"
#include "common/status_macros.h"
#include "ps_server/decisions/event_conversion.h"

namespace sluice {
namespace {

// A job may be longer than the coordinator's by this much, and by as much as
// that has, to be compared field by field.
constexpr size_t kRoom = 64 << 10;

std::string Difference(const std::string& here, const std::string& there) {
  if (there.size() > 2 * here.size() + kRoom) {
    return absl::StrCat("its text has ", here.size(), " bytes here, ",
                        there.size(), " there");
  }
  return DescribeDifference(here, there);
}

}  // namespace

absl::Status JobAgreement::Check(const proto::Join& join) const {
  SLUICE_ASSIGN_OR_RETURN(const Peer peer,
                          PeerFromProto("Join", join.role(), join.id()));
  if (join.fingerprint() == fingerprint_) return absl::OkStatus();
  std::string difference = Difference(job_text_, join.job());
  if (difference.empty()) {
    difference = absl::StrCat(
        "same job file, but another build or other data: fingerprint ",
        fingerprint_, " here, ", join.fingerprint(), " there");
  }
  return absl::FailedPreconditionError(absl::StrCat(
      peer.ToString(), ": another job than the coordinator's: ", difference));
}

}  // namespace sluice
