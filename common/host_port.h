#ifndef SLUICE_COMMON_HOST_PORT_H_
#define SLUICE_COMMON_HOST_PORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// An address in its usual notation "host:port". An IPv6 host has brackets, so
// that its colons are not taken for the port's: "[::1]:7000".
struct HostPort {
  std::string host;  // Without brackets; may be empty.
  int port = 0;      // 0 to 65535.

  // In the notation above.
  std::string ToString() const;
  // Whether the host is empty, "0.0.0.0" or "::".
  bool IsEveryInterface() const;
  // Whether only this machine reaches it: 127.0.0.0/8, "::1" or "localhost".
  bool IsLoopback() const;
};

// kInvalidArgument says what was expected and what was found.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view address);

// Whether it is gRPC's name of a socket that only this host reaches:
// "unix:PATH" or "unix-abstract:NAME".
bool IsLocalSocket(absl::string_view address);

}  // namespace sluice

#endif  // SLUICE_COMMON_HOST_PORT_H_
