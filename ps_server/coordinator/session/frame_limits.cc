#include "ps_server/coordinator/session/frame_limits.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/session/reason.h"
#include "common/status_macros.h"
#include "common/telemetry/json_text.h"
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

// The first `most` bytes, without a part of a character of UTF-8.
void Cut(std::string* text, size_t most) {
  if (text->size() <= most) return;
  const auto continues = [&](size_t at) {  // A character.
    return (static_cast<unsigned char>((*text)[at]) & 0xC0) == 0x80;
  };
  while (most > 0 && continues(most)) --most;
  text->resize(most);
}

}  // namespace

std::string Readable(const std::string& text) {
  std::string readable = Utf8Text(text);
  for (char& c : readable) {
    if (absl::ascii_iscntrl(c)) c = absl::ascii_isspace(c) ? ' ' : '?';
  }
  Cut(&readable, kMostReasonBytes);
  return readable;
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

std::optional<proto::ToCoordinator> WithReadableReason(
    const proto::ToCoordinator& frame) {
  // Before anything is copied: a Join carries the job, and Executed comes from
  // each shard for each decision.
  if (frame.has_join() || frame.has_ready() ||
      (frame.has_executed() && frame.executed().fault().empty())) {
    return std::nullopt;
  }
  proto::ToCoordinator readable = frame;
  std::string* reason = ReasonIn(&readable);
  if (reason == nullptr || reason->empty()) return std::nullopt;
  *reason = Readable(*reason);
  return readable;
}

}  // namespace sluice
