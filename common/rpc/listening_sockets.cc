#include "common/rpc/listening_sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/host_port.h"
#include "common/rpc/channel_options.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// The options that gRPC sets on its own sockets; accepted connections inherit
// them. Small messages are sent at once. A port can be taken again while
// connections of an earlier process linger. The system also notices a vanished
// peer.
void SetOptions(int socket) {
  const int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kKeepaliveTimeoutMs,
             sizeof(kKeepaliveTimeoutMs));
}

// Returns a listening socket, or -1 with errno set.
int ListenOn(const sockaddr* address, socklen_t size) {
  const int fd =
      socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  SetOptions(fd);
  const int both = 0;
  if (address->sa_family == AF_INET6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof(both));
  }
  if (bind(fd, address, size) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

absl::Status CannotListen(const std::string& address, const char* why) {
  return absl::UnavailableError(absl::StrCat(
      "cannot listen on ", address,
      ": the port is taken or the address is not this host's (", why, ")"));
}

// One socket for IPv4 and IPv6, or an IPv4 socket if the system has only that.
int ListenEverywhere(int port) {
  sockaddr_in6 both = {};
  both.sin6_family = AF_INET6;
  both.sin6_port = htons(static_cast<uint16_t>(port));
  const int fd =
      ListenOn(reinterpret_cast<const sockaddr*>(&both), sizeof(both));
  if (fd >= 0 || errno == EADDRINUSE || errno == EACCES) return fd;
  sockaddr_in ipv4 = {};
  ipv4.sin_family = AF_INET;
  ipv4.sin_port = htons(static_cast<uint16_t>(port));
  return ListenOn(reinterpret_cast<const sockaddr*>(&ipv4), sizeof(ipv4));
}

// Listens on all addresses of a host's name, on one port.
absl::StatusOr<std::vector<int>> ListenOnHost(const std::string& address,
                                              const HostPort& at) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(at.host.c_str(), absl::StrCat(at.port).c_str(),
                                &hints, &found);
  if (error != 0) return CannotListen(address, gai_strerror(error));
  const absl::Cleanup free_found = [found] { freeaddrinfo(found); };
  std::vector<int> sockets;
  absl::Cleanup close_sockets = [&sockets] {
    for (const int fd : sockets) close(fd);
  };
  int failed = 0;
  std::set<std::string> seen;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    // /etc/hosts may have the name in several lines.
    const bool is_new =
        seen.emplace(reinterpret_cast<const char*>(one->ai_addr),
                     one->ai_addrlen)
            .second;
    if (!is_new) continue;
    if (!sockets.empty()) {  // The port that the first socket was given.
      reinterpret_cast<sockaddr_in6*>(one->ai_addr)->sin6_port =
          htons(static_cast<uint16_t>(PortOfSocket(sockets.front())));
    }
    const int fd = ListenOn(one->ai_addr, one->ai_addrlen);
    if (fd >= 0) {
      sockets.push_back(fd);
      continue;
    }
    failed = errno;
    if (failed == EADDRINUSE) break;
  }
  if (failed == EADDRINUSE || sockets.empty()) {
    return CannotListen(address, strerror(failed));
  }
  std::move(close_sockets).Cancel();
  return sockets;
}

}  // namespace

int PortOfSocket(int socket) {
  sockaddr_in6 bound = {};  // sockaddr_in has the port at the same place.
  socklen_t size = sizeof(bound);
  getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.sin6_port);
}

absl::StatusOr<std::vector<int>> OpenListeningSockets(
    const std::string& address) {
  SLUICE_ASSIGN_OR_RETURN(const HostPort at, ParseHostPort(address));
  if (!at.IsEveryInterface()) return ListenOnHost(address, at);
  const int fd = ListenEverywhere(at.port);
  if (fd < 0) return CannotListen(address, strerror(errno));
  return std::vector<int>{fd};
}

}  // namespace sluice
