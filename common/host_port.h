#ifndef SLUICE_COMMON_HOST_PORT_H_
#define SLUICE_COMMON_HOST_PORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// An address as people write it: "host:port", with brackets around an IPv6
// host, so that its colons are not the port's: "[::1]:7000".
struct HostPort {
  std::string host;  // Without brackets; may be empty.
  int port = 0;      // 0 to 65535.

  // As it was written.
  std::string ToString() const;
  // Empty, "0.0.0.0" or "::".
  bool IsEveryInterface() const;
};

// kInvalidArgument: says what was expected and what came.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view address);

}  // namespace sluice

#endif  // SLUICE_COMMON_HOST_PORT_H_
