#include "bench/exchange_sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "bench/exchange_peer.h"

namespace sluice::bench {
namespace {

sockaddr_in LoopbackAddress(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

int WithoutDelay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

}  // namespace

Listening ListenOnLoopback() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = LoopbackAddress(0);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(fd, any, size) != 0 || listen(fd, 8) != 0 ||
      getsockname(fd, any, &size) != 0) {
    Fail("cannot listen");
  }
  return {fd, ntohs(address.sin_port)};
}

int AcceptFrom(const Listening& listening) {
  const int fd = accept(listening.fd, nullptr, nullptr);
  if (fd < 0) Fail("cannot accept");
  return WithoutDelay(fd);
}

int ConnectOnLoopback(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = LoopbackAddress(port);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    Fail("cannot connect");
  }
  return WithoutDelay(fd);
}

}  // namespace sluice::bench
