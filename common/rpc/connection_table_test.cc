#include "common/rpc/connection_table.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

sockaddr_in6 Ipv6(const char* text) {
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  EXPECT_EQ(inet_pton(AF_INET6, text, &address.sin6_addr), 1) << text;
  return address;
}

sockaddr_in6 Ipv4(const char* text) {
  sockaddr_in6 peer = {};
  auto& ipv4 = reinterpret_cast<sockaddr_in&>(peer);
  ipv4.sin_family = AF_INET;
  EXPECT_EQ(inet_pton(AF_INET, text, &ipv4.sin_addr), 1) << text;
  return peer;
}

constexpr absl::Time kStart = absl::UnixEpoch();
const sockaddr_in6 kA = Ipv4("192.0.2.1");
const sockaddr_in6 kB = Ipv4("192.0.2.2");

// Stands for a connection, where only its descriptor matters.
class Socket {
 public:
  Socket() : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() { close(descriptor_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
};

TEST(ConnectionTableTest, AnAddressHasItsLimitAndAllTogetherHaveOne) {
  ConnectionTable table({.in_all = 3, .from_one_address = 2});
  Socket sockets[5];
  EXPECT_TRUE(table.Add(sockets[0].descriptor(), kA, kStart).ok());
  EXPECT_TRUE(table.Add(sockets[1].descriptor(), kA, kStart).ok());
  const absl::Status third = table.Add(sockets[2].descriptor(), kA, kStart);
  EXPECT_TRUE(absl::IsResourceExhausted(third)) << third;
  EXPECT_THAT(third.message(),
              HasSubstr("192.0.2.1 has 2 connections already"));
  EXPECT_TRUE(table.Add(sockets[3].descriptor(), kB, kStart).ok());
  const absl::Status fourth = table.Add(sockets[4].descriptor(), kB, kStart);
  EXPECT_TRUE(absl::IsResourceExhausted(fourth)) << fourth;
  EXPECT_THAT(fourth.message(), HasSubstr("there are 3 connections already"));
}

TEST(ConnectionTableTest, WhatHasBeenClosedDoesNotCount) {
  ConnectionTable table({.in_all = 2, .from_one_address = 1});
  const Socket b;
  EXPECT_TRUE(table.Add(b.descriptor(), kB, kStart).ok());
  {
    const Socket first;
    EXPECT_TRUE(table.Add(first.descriptor(), kA, kStart).ok());
  }
  const Socket second;
  EXPECT_TRUE(table.Add(second.descriptor(), kA, kStart).ok());
}

TEST(ConnectionTableTest, AFileWithTheNumberOfAClosedConnectionIsNone) {
  ConnectionTable table({.in_all = 2, .from_one_address = 1});
  auto first = std::make_unique<Socket>();
  EXPECT_TRUE(table.Add(first->descriptor(), kA, kStart).ok());
  const Socket spare;
  const int number = first->descriptor();
  first.reset();
  ASSERT_EQ(dup2(spare.descriptor(), number), number);
  const Socket second;
  EXPECT_TRUE(table.Add(second.descriptor(), kA, kStart).ok());
  close(number);
}

TEST(ConnectionTableTest, ANumberThatComesAgainIsAnotherConnection) {
  ConnectionTable table({.in_all = 1, .from_one_address = 1});
  for (const sockaddr_in6& peer : {kA, kB, kA}) {
    const Socket socket;
    EXPECT_TRUE(table.Add(socket.descriptor(), peer, kStart).ok())
        << HostOf(peer);
  }
}

TEST(ConnectionTableTest, AJobOfAnySizeFitsOnOneHost) {
  for (const int processes : {1, 9, 1000}) {
    const auto limits = ConnectionLimits::ForJob(processes, 1 << 20);
    EXPECT_GE(limits.from_one_address, 4 * processes);
    EXPECT_EQ(limits.in_all, 2 * limits.from_one_address);
  }
}

// A client's connection to this process, in the table of its server.
class Connected {
 public:
  explicit Connected(ConnectionTable* table, int family = AF_INET)
      : client_(socket(family, SOCK_STREAM, 0)) {
    const int listener = socket(family, SOCK_STREAM, 0);
    sockaddr_in6 at = family == AF_INET ? Ipv4("127.0.0.1") : Ipv6("::1");
    socklen_t size =
        family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    auto* const address = reinterpret_cast<sockaddr*>(&at);
    EXPECT_EQ(bind(listener, address, size), 0);
    EXPECT_EQ(listen(listener, 1), 0);
    getsockname(listener, address, &size);
    EXPECT_EQ(connect(client_, address, size), 0);
    server_ = accept(listener, address, &size);
    close(listener);
    EXPECT_TRUE(table->Add(server_, at, kStart).ok());
    const int port = ntohs(at.sin6_port);
    peer_ = family == AF_INET ? absl::StrCat("ipv4:127.0.0.1:", port)
                              : absl::StrCat("ipv6:%5B::1%5D:", port);
  }
  ~Connected() {
    close(client_);
    close(server_);
  }
  // Returns when all has come; what came is not looked at.
  void Send(size_t bytes) {
    const std::string sent(bytes, 'x');
    std::string got(bytes, ' ');
    EXPECT_EQ(send(client_, sent.data(), bytes, MSG_NOSIGNAL), bytes);
    EXPECT_EQ(recv(server_, got.data(), bytes, MSG_WAITALL), bytes);
  }
  // As gRPC says it.
  const std::string& peer() const { return peer_; }

 private:
  const int client_;
  int server_ = -1;
  std::string peer_;
};

constexpr int64_t kHoard = 100000;
const absl::Time kSoon = kStart + absl::Milliseconds(100);

TEST(ConnectionTableTest, WhoSendsFarMoreThanItsMessagesAreIsShut) {
  ConnectionTable table({.hoard = kHoard});
  Connected hoarder(&table);
  Connected other(&table);
  hoarder.Send(60000);
  EXPECT_TRUE(table.ShutOffenders(kSoon).ok());
  hoarder.Send(60000);
  other.Send(60000);
  const absl::Status shut = table.ShutOffenders(kSoon);
  EXPECT_THAT(shut.message(),
              HasSubstr(" bytes that no message has come of, expected at most "
                        "100000"));
  EXPECT_THAT(absl::StrCat("ipv4:", shut.message()),
              ::testing::StartsWith(hoarder.peer()));
  EXPECT_TRUE(table.ShutOffenders(kSoon).ok());
}

TEST(ConnectionTableTest, MessagesExplainWhatIsSent) {
  for (const int family : {AF_INET, AF_INET6}) {
    ConnectionTable table({.hoard = kHoard});
    Connected worker(&table, family);
    for (int i = 0; i < 10; ++i) {
      worker.Send(60000);
      table.Explain(worker.peer(), 59000, 0);
      EXPECT_TRUE(table.ShutOffenders(kSoon).ok()) << worker.peer();
    }
  }
}

TEST(ConnectionTableTest, WhatCallsHeldThatHaveEndedIsForgotten) {
  ConnectionTable table({.hoard = kHoard});
  Connected worker(&table);
  for (int i = 0; i < 10; ++i) {
    table.BeginReading(worker.peer());
    worker.Send(30000);
    EXPECT_TRUE(table.ShutOffenders(kSoon).ok());
    worker.Send(30000);
    table.EndReading(worker.peer());
  }
  table.BeginReading(worker.peer());
  worker.Send(120000);
  EXPECT_FALSE(table.ShutOffenders(kSoon).ok()) << "nobody has saved up";
}

TEST(ConnectionTableTest, WhatIsHeldStaysWhileAnotherCallIsReadFrom) {
  ConnectionTable table({.hoard = kHoard});
  Connected hoarder(&table);
  table.BeginReading(hoarder.peer());
  hoarder.Send(60000);
  table.BeginReading(hoarder.peer());
  table.EndReading(hoarder.peer());
  hoarder.Send(60000);
  EXPECT_FALSE(table.ShutOffenders(kSoon).ok());
}

TEST(ConnectionTableTest, NobodySavesUpForLater) {
  ConnectionTable table({.hoard = kHoard});
  Connected hoarder(&table);
  table.Explain(hoarder.peer(), 1 << 20, 0);
  EXPECT_TRUE(table.ShutOffenders(kSoon).ok());
  hoarder.Send(120000);
  EXPECT_FALSE(table.ShutOffenders(kSoon).ok());
}

TEST(ConnectionTableTest, PingsOfAYearAreNoHoard) {
  ConnectionTable table({.hoard = kHoard});
  Connected worker(&table);
  for (int i = 1; i < 10; ++i) {
    worker.Send(50000);
    EXPECT_TRUE(table.ShutOffenders(kStart + i * absl::Minutes(1)).ok());
  }
}

TEST(ConnectionTableTest, WhoIsAccusedIsShutAndItsHostCannotConnectForAWhile) {
  ConnectionTable table({});
  const Connected caller(&table);
  const Connected other(&table);
  table.Accuse(caller.peer(), "has called too often");
  const absl::Status shut = table.ShutOffenders(kSoon);
  EXPECT_EQ(absl::StrCat("ipv4:", shut.message()),
            absl::StrCat(caller.peer(), " has called too often"));
  EXPECT_TRUE(table.ShutOffenders(kSoon).ok()) << "the other one stays";
  const Socket again;
  const sockaddr_in6 host = Ipv4("127.0.0.1");
  const absl::Status banned = table.Add(again.descriptor(), host, kSoon);
  EXPECT_THAT(
      banned.message(),
      HasSubstr("127.0.0.1 has offended and may connect again in 11 s"));
  EXPECT_TRUE(table.Add(again.descriptor(), kA, kSoon).ok());
  const Socket later;
  EXPECT_TRUE(
      table.Add(later.descriptor(), host, kSoon + ConnectionTable::kBan).ok());
}

TEST(HostOfTest, AHostIsAnIpv4AddressOrThe64OfAnIpv6One) {
  EXPECT_EQ(HostOf(Ipv4("192.0.2.7")), "192.0.2.7");
  EXPECT_EQ(HostOf(Ipv6("::ffff:192.0.2.7")), "192.0.2.7");
  EXPECT_EQ(HostOf(Ipv6("2001:db8:1:2:3:4:5:6")), "2001:db8:1:2::");
  EXPECT_EQ(HostOf(Ipv6("2001:db8:1:2:9::")), "2001:db8:1:2::");
}

}  // namespace
}  // namespace sluice
