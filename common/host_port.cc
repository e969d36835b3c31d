// The port follows the last colon. A host with colons of its own must be in
// brackets, and only such a host may be: "[::1]:7000" is valid, "::1:7000" and
// "[localhost]:7000" are not.
#include "common/host_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace sluice {

std::string HostPort::ToString() const {
  const bool brackets = absl::StrContains(host, ':');
  return absl::StrCat(brackets ? "[" : "", host, brackets ? "]" : "", ":",
                      port);
}

bool HostPort::IsEveryInterface() const {
  return host.empty() || host == "0.0.0.0" || host == "::";
}

bool HostPort::IsLoopback() const {
  in_addr v4 = {};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  in6_addr v6 = {};
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) {
    return IN6_IS_ADDR_LOOPBACK(&v6);
  }
  return host == "localhost";
}

absl::StatusOr<HostPort> ParseHostPort(absl::string_view address) {
  HostPort result;
  const size_t colon = address.rfind(':');
  if (colon != absl::string_view::npos) {
    absl::string_view host = address.substr(0, colon);
    const bool brackets =
        absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
    result.host = std::string(host);
    const bool is_host = absl::StrContains(host, ':') == brackets &&
                         !absl::StrContains(host, '[') &&
                         !absl::StrContains(host, ']');
    if (is_host && absl::SimpleAtoi(address.substr(colon + 1), &result.port) &&
        result.port >= 0 && result.port <= 65535) {
      return result;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("must be \"host:port\" or \"[IPv6]:port\" with a port of 0 "
                   "to 65535, is \"",
                   address, "\""));
}

bool IsLocalSocket(absl::string_view address) {
  return absl::StartsWith(address, "unix:") ||
         absl::StartsWith(address, "unix-abstract:");
}

}  // namespace sluice
