#include "worker/external/packet.h"

#include <algorithm>
#include <cstdint>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "common/process/shared_memory.h"
#include "common/status_macros.h"

namespace sluice {

using model_protocol::Kind;

bool SendHello(int socket, const model_protocol::Hello& hello,
               const std::vector<int>& descriptors) {
  return SendWithDescriptors(
      socket, {reinterpret_cast<const uint8_t*>(&hello), sizeof hello},
      descriptors);
}

std::string KindName(Kind kind) {
  switch (kind) {
    case Kind::kHello:
      return "HELLO";
    case Kind::kReady:
      return "READY";
    case Kind::kTask:
      return "TASK";
    case Kind::kFinal:
      return "FINAL";
    case Kind::kResult:
      return "RESULT";
    case Kind::kFailed:
      return "FAILED";
    case Kind::kCancel:
      return "CANCEL";
    case Kind::kCancelled:
      return "CANCELLED";
    case Kind::kStop:
      return "STOP";
    case Kind::kEvaluate:
      return "EVALUATE";
    case Kind::kEvaluated:
      return "EVALUATED";
    case Kind::kLog:
      return "LOG";
  }
  return absl::StrCat("a message of kind ", static_cast<uint32_t>(kind));
}

Kind KindOf(absl::string_view packet) {
  Kind kind{};
  if (packet.size() >= sizeof kind) {
    std::memcpy(&kind, packet.data(), sizeof kind);
  }
  return kind;
}

absl::StatusOr<std::string> ParseReady(absl::string_view packet) {
  const size_t head = std::min(packet.size(), sizeof(model_protocol::Ready));
  SLUICE_ASSIGN_OR_RETURN(const auto ready, ParsePacket<model_protocol::Ready>(
                                                packet.substr(0, head)));
  if (ready.protocol != model_protocol::kProtocol) {
    return absl::InvalidArgumentError(
        absl::StrCat("READY for protocol ", ready.protocol, ", expected ",
                     model_protocol::kProtocol));
  }
  std::string own_input(packet.substr(head));
  if (own_input.size() > model_protocol::kMostOwnInput ||
      !absl::c_all_of(own_input, absl::ascii_isprint)) {
    return absl::InvalidArgumentError(
        absl::StrCat("READY with ", own_input.size(),
                     " characters, expected printable ones of ASCII, at most ",
                     model_protocol::kMostOwnInput));
  }
  return own_input;
}

std::string TextOfFailed(absl::string_view packet) {
  const absl::string_view text =
      packet.substr(std::min(packet.size(), sizeof(model_protocol::Failed)));
  return absl::StrReplaceAll(absl::Utf8SafeCEscape(text),
                             {{"\\'", "'"}, {"\\\"", "\""}});
}

}  // namespace sluice
