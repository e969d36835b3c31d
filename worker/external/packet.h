#ifndef SLUICE_WORKER_EXTERNAL_PACKET_H_
#define SLUICE_WORKER_EXTERNAL_PACKET_H_

#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "worker/external/model_protocol.h"

// Packets between a worker and its model process, which may send anything.
namespace sluice {

// Sends `hello` over the Unix socket `socket`, and with it the descriptors.
// False: errno says why not.
bool SendHello(int socket, const model_protocol::Hello& hello,
               const std::vector<int>& descriptors);

// As docs/model_process.md names it: "RESULT".
std::string KindName(model_protocol::Kind kind);

// 0, which no message has, where `packet` is too short for one.
model_protocol::Kind KindOf(absl::string_view packet);

// The packet as a message of the kind that it has. kInvalidArgument: it has
// another size, "RESULT of 6 bytes, expected 32".
template <typename Message>
absl::StatusOr<Message> ParsePacket(absl::string_view packet) {
  Message message;
  if (packet.size() != sizeof message) {
    return absl::InvalidArgumentError(
        absl::StrCat(KindName(message.kind), " of ", packet.size(),
                     " bytes, expected ", sizeof message));
  }
  std::memcpy(&message, packet.data(), sizeof message);
  return message;
}

// What READY has beside the protocol, which is this one. kInvalidArgument says
// what came and what was expected.
absl::StatusOr<std::string> ParseReady(absl::string_view packet);

// What FAILED says, in one line for people: quotes stay as they are.
std::string TextOfFailed(absl::string_view packet);

}  // namespace sluice

#endif  // SLUICE_WORKER_EXTERNAL_PACKET_H_
