#include "ps_server/coordinator/session/frame_limits.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "ps_server/decisions/event_conversion.h"

namespace sluice {
namespace {

absl::Status CheckText(Peer peer, absl::string_view field,
                       absl::string_view text, size_t most) {
  if (text.size() > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(peer.ToString(), ": Join.", field, " has ", text.size(),
                     " bytes, expected at most ", most));
  }
  if (absl::c_any_of(text, absl::ascii_iscntrl)) {
    return absl::InvalidArgumentError(absl::StrCat(
        peer.ToString(), ": Join.", field, " has control characters"));
  }
  return absl::OkStatus();
}

// What a frame says for people; null: nothing.
std::string* ReasonIn(proto::ToCoordinator* frame) {
  switch (frame->body_case()) {
    case proto::ToCoordinator::kHeartbeat:
      return frame->mutable_heartbeat()->mutable_waits_for();
    case proto::ToCoordinator::kRejected:
      return frame->mutable_rejected()->mutable_reason();
    case proto::ToCoordinator::kEvaluated:
      return frame->mutable_evaluated()->mutable_error();
    case proto::ToCoordinator::kLeave:
      return frame->mutable_leave()->mutable_reason();
    case proto::ToCoordinator::kStored:
      return frame->mutable_stored()->mutable_error();
    default:
      return nullptr;
  }
}

}  // namespace

void CutReason(std::string* reason) {
  size_t most = kMostReasonBytes;
  if (reason->size() <= most) return;
  const auto continues = [&](size_t at) {  // A character of UTF-8.
    return (static_cast<unsigned char>((*reason)[at]) & 0xC0) == 0x80;
  };
  while (most > 0 && continues(most)) --most;
  reason->resize(most);
}

absl::Status CheckNames(const proto::Join& join) {
  SLUICE_ASSIGN_OR_RETURN(const Peer peer,
                          PeerFromProto("Join", join.role(), join.id()));
  SLUICE_RETURN_IF_ERROR(
      CheckText(peer, "address", join.address(), kMostNameBytes));
  SLUICE_RETURN_IF_ERROR(
      CheckText(peer, "process", join.process(), kMostNameBytes));
  for (const std::string& member : join.members()) {
    SLUICE_RETURN_IF_ERROR(CheckText(peer, "members", member, kMostNameBytes));
  }
  if (join.inputs_size() > kMostInputs) {
    return absl::InvalidArgumentError(
        absl::StrCat(peer.ToString(), ": Join.inputs has ", join.inputs_size(),
                     " entries, expected at most ", kMostInputs));
  }
  for (const auto& [name, value] : join.inputs()) {
    SLUICE_RETURN_IF_ERROR(CheckText(peer, "inputs", name, kMostNameBytes));
    SLUICE_RETURN_IF_ERROR(CheckText(peer, "inputs", value, kMostInputBytes));
  }
  return absl::OkStatus();
}

std::optional<proto::ToCoordinator> WithReasonCut(
    const proto::ToCoordinator& frame) {
  // Before anything is copied; a Join carries the job.
  if (frame.has_join() || frame.ByteSizeLong() <= kMostReasonBytes) {
    return std::nullopt;
  }
  proto::ToCoordinator cut = frame;
  std::string* reason = ReasonIn(&cut);
  if (reason == nullptr || reason->size() <= kMostReasonBytes) {
    return std::nullopt;
  }
  CutReason(reason);
  return cut;
}

}  // namespace sluice
