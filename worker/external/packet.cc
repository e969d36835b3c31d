#include "worker/external/packet.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstdint>

namespace sluice {

using model_protocol::Kind;

bool SendHello(int socket, model_protocol::Hello hello,
               const std::vector<int>& descriptors) {
  iovec bytes = {.iov_base = &hello, .iov_len = sizeof hello};
  const size_t size = descriptors.size() * sizeof(int);
  std::vector<char> control(CMSG_SPACE(size));
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(size);
  std::memcpy(CMSG_DATA(header), descriptors.data(), size);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof hello;
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
