#include "ps_server/coordinator/session/job_agreement.h"

#include "absl/strings/str_cat.h"
#include "common/job/resolved_job.h"
#include "common/status_macros.h"
#include "ps_server/decisions/event_conversion.h"

namespace sluice {
namespace {

// A job may be longer than the coordinator's by this much, and by as much as
// that has, to be compared field by field.
constexpr size_t kRoom = 64 << 10;

// Read where the peer is, so that its job is the one "here".
std::string Difference(const std::string& peers, const std::string& own) {
  if (peers.size() > 2 * own.size() + kRoom) {
    return absl::StrCat("its text has ", peers.size(), " bytes here, ",
                        own.size(), " there");
  }
  return DescribeDifference(peers, own);
}

}  // namespace

absl::Status JobAgreement::Check(const proto::Join& join) const {
  SLUICE_ASSIGN_OR_RETURN(const Peer peer,
                          PeerFromProto("Join", join.role(), join.id()));
  if (join.fingerprint() == fingerprint_) return absl::OkStatus();
  std::string difference = Difference(join.job(), job_text_);
  if (difference.empty()) {
    difference = absl::StrCat(
        "same job file, but another build or other data: fingerprint ",
        join.fingerprint(), " here, ", fingerprint_, " there");
  }
  return absl::FailedPreconditionError(absl::StrCat(
      peer.ToString(), ": another job than the coordinator's: ", difference));
}

}  // namespace sluice
