#include "cli/chaos/part_networks.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace sluice {
namespace {

// A datagram socket in the network of `name`, at its address.
int SocketAt(PartNetworks& networks, const std::string& name, int port) {
  EXPECT_TRUE(networks.Enter(name).ok());
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  inet_pton(AF_INET, networks.AddressOf(name).c_str(), &at.sin_addr);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  EXPECT_TRUE(networks.Leave().ok());
  return fd;
}

// Whether a datagram to `name` comes in at `to` within `patience` ms; it is
// sent again all the time.
bool Arrives(PartNetworks& networks, int from, int to, const std::string& name,
             int port, int patience_ms) {
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  inet_pton(AF_INET, networks.AddressOf(name).c_str(), &at.sin_addr);
  constexpr int kEvery = 10;
  for (int waited = 0; waited < patience_ms; waited += kEvery) {
    sendto(from, "x", 1, MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&at),
           sizeof at);
    pollfd in = {.fd = to, .events = POLLIN, .revents = 0};
    if (poll(&in, 1, kEvery) == 1) return true;
  }
  return false;
}

// In one test: a process can go into a namespace of its own only once.
TEST(PartNetworksTest, WhoIsCutOffIsNotReachedUntilHealed) {
  auto created =
      PartNetworks::Create({"worker-0", "worker-1"}, testing::TempDir());
  if (!created.ok()) GTEST_SKIP() << "SKIPPED: " << created.status();
  PartNetworks& networks = **created;
  EXPECT_NE(networks.AddressOf("worker-0"), networks.AddressOf("worker-1"));
  const int first = SocketAt(networks, "worker-0", 7000);
  const int second = SocketAt(networks, "worker-1", 7001);
  const int outside = socket(AF_INET, SOCK_DGRAM, 0);  // At the bridge.
  constexpr int kSoon = 20000;
  constexpr int kNever = 300;
  char byte;
  const auto drain = [&] {
    while (recv(second, &byte, 1, MSG_DONTWAIT) == 1) {
    }
  };
  ASSERT_TRUE(Arrives(networks, first, second, "worker-1", 7001, kSoon));
  ASSERT_TRUE(networks.Cut("worker-1").ok());
  drain();
  EXPECT_FALSE(Arrives(networks, first, second, "worker-1", 7001, kNever));
  EXPECT_FALSE(Arrives(networks, outside, second, "worker-1", 7001, kNever));
  EXPECT_TRUE(Arrives(networks, outside, first, "worker-0", 7000, kSoon));
  ASSERT_TRUE(networks.Heal("worker-1").ok());
  EXPECT_TRUE(Arrives(networks, first, second, "worker-1", 7001, kSoon));
  for (int fd : {first, second, outside}) close(fd);
}

}  // namespace
}  // namespace sluice
