#ifndef SLUICE_COMMON_RPC_LISTENING_SOCKETS_H_
#define SLUICE_COMMON_RPC_LISTENING_SOCKETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

// Sockets that listen on "host:port" (common/host_port.h), all on one port and
// not blocking; the caller closes them. Port 0: a free one. "Every interface"
// is one socket, of IPv4 and IPv6 if the system has both; a host's name is one
// for each of its addresses. kInvalidArgument: not an address. kUnavailable:
// the port is taken, or the address is not this host's.
absl::StatusOr<std::vector<int>> OpenListeningSockets(
    const std::string& address);

// The port that a socket is bound to.
int PortOfSocket(int socket);

}  // namespace sluice

#endif  // SLUICE_COMMON_RPC_LISTENING_SOCKETS_H_
