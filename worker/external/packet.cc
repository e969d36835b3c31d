#include "worker/external/packet.h"

#include <cstdint>

#include "common/shared_memory.h"

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

}  // namespace sluice
