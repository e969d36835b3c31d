#include "common/rpc/listener.h"

#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/rpc/channel_options.h"
#include "common/rpc/deadline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/exchange.grpc.pb.h"

// c-ares, with which gRPC looks up names, never frees a few bytes of an answer.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libcares\n";
}

namespace sluice {
namespace {

using ::testing::HasSubstr;

// Far longer than any test takes.
constexpr absl::Duration kLong = absl::Seconds(30);

// A gRPC server without methods behind a listener: it answers UNIMPLEMENTED.
class Server {
 public:
  explicit Server(Listener* listener) : listener_(*listener) {
    grpc::ServerBuilder builder;
    ApplyServerOptions(&builder);
    auto connections =
        Listener::AddTo(&builder, grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    listener_.Serve(std::move(connections));
  }
  ~Server() {
    listener_.Rest();
    server_->Shutdown(FromNow(absl::ZeroDuration()));
  }

 private:
  Listener& listener_;
  proto::Exchange::Service service_;
  std::unique_ptr<grpc::Server> server_;
};

std::unique_ptr<Listener> OpenAt(const std::string& address) {
  auto listener = Listener::Open(address);
  EXPECT_TRUE(listener.ok()) << listener.status();
  return *std::move(listener);
}

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& host,
                                         const Listener& listener) {
  return grpc::CreateCustomChannel(absl::StrCat(host, ":", listener.port()),
                                   grpc::InsecureChannelCredentials(),
                                   SessionChannelArguments());
}

// The status of a call on the channel; UNIMPLEMENTED: a server has answered.
grpc::StatusCode Call(const std::shared_ptr<grpc::Channel>& channel,
                      absl::Duration timeout = kLong) {
  grpc::ClientContext context;
  SetTimeout(timeout, &context);
  context.set_wait_for_ready(true);
  proto::PullRequest request;
  const auto stub = proto::Exchange::NewStub(channel);
  return stub->Pull(&context, request)->Finish().error_code();
}

bool Answers(const std::string& host, const Listener& listener) {
  return Call(ChannelTo(host, listener)) == grpc::StatusCode::UNIMPLEMENTED;
}

bool Ipv6IsThere() { return Listener::Open("[::1]:0").ok(); }

TEST(ListenerTest, EveryInterfaceIsThatOfBothKindsOfAddresses) {
  for (const char* address : {"[::]:0", "0.0.0.0:0", ":0"}) {
    const auto listener = OpenAt(address);
    Server server(listener.get());
    EXPECT_TRUE(Answers("127.0.0.1", *listener)) << address;
    if (Ipv6IsThere()) {
      EXPECT_TRUE(Answers("[::1]", *listener)) << address;
    }
  }
}

TEST(ListenerTest, OneAddressIsThatAlone) {
  if (!Ipv6IsThere()) GTEST_SKIP() << "no IPv6 here";
  const auto listener = OpenAt("[::1]:0");
  Server server(listener.get());
  EXPECT_TRUE(Answers("[::1]", *listener));
  EXPECT_NE(Call(ChannelTo("127.0.0.1", *listener), absl::Milliseconds(300)),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST(ListenerTest, ANameIsListenedOnAtAllItsAddresses) {
  const auto listener = OpenAt("localhost:0");
  Server server(listener.get());
  EXPECT_TRUE(Answers("localhost", *listener));
}

TEST(ListenerTest, APortThatIsTakenIsNamed) {
  const auto first = OpenAt("127.0.0.1:0");
  const std::string address = absl::StrCat("127.0.0.1:", first->port());
  const absl::Status taken = Listener::Open(address).status();
  EXPECT_TRUE(absl::IsUnavailable(taken));
  EXPECT_THAT(std::string(taken.message()),
              HasSubstr(absl::StrCat(
                  "cannot listen on ", address,
                  ": the port is taken or the address is not this host's")));
  // Every interface includes this address.
  EXPECT_TRUE(absl::IsUnavailable(
      Listener::Open(absl::StrCat("[::]:", first->port())).status()));
  // 192.0.2.0/24 belongs to no host (RFC 5737).
  EXPECT_TRUE(absl::IsUnavailable(Listener::Open("192.0.2.1:0").status()));
  EXPECT_TRUE(
      absl::IsUnavailable(Listener::Open("no.such.host.invalid:0").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Listener::Open("::1:7000").status()));
}

TEST(ListenerTest, ThePortIsKeptFromOneServerToTheNext) {
  const auto listener = OpenAt("127.0.0.1:0");
  const std::string address = absl::StrCat("127.0.0.1:", listener->port());
  for (int i = 0; i < 3; ++i) {
    {
      Server server(listener.get());
      EXPECT_TRUE(Answers("127.0.0.1", *listener));
    }
    EXPECT_FALSE(Listener::Open(address).ok()) << "nobody can take it";
  }
  // A peer that connects in between is served by the next server.
  const auto early = ChannelTo("127.0.0.1", *listener);
  early->GetState(/*connect=*/true);
  Server server(listener.get());
  EXPECT_EQ(Call(early), grpc::StatusCode::UNIMPLEMENTED);
}

// Limits this process to 200 descriptors and leaves `left` of them free.
class FewDescriptors {
 public:
  explicit FewDescriptors(size_t left) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = 200;
    setrlimit(RLIMIT_NOFILE, &few);
    for (int fd; (fd = OpenOne()) >= 0;) taken_.push_back(fd);
    for (; left > 0; --left, taken_.pop_back()) close(taken_.back());
  }
  ~FewDescriptors() {
    for (const int fd : taken_) close(fd);
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  static int OpenOne() { return open("/dev/null", O_RDONLY); }

 private:
  rlimit before_ = {};
  std::vector<int> taken_;
};

// A client that takes its descriptor before it connects.
class RawClient {
 public:
  RawClient() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {}
  ~RawClient() { close(fd_); }
  void Connect(int port) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)),
              0);
  }
  // As gRPC's server names it.
  std::string peer() const {
    sockaddr_in from = {};
    socklen_t size = sizeof(from);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&from), &size);
    return absl::StrCat("ipv4:127.0.0.1:", ntohs(from.sin_port));
  }
  // Reads until the server closes the connection, at most for kLong.
  bool AwaitClosed() {
    timeval patience = {.tv_sec = absl::ToInt64Seconds(kLong), .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    char read[256];
    ssize_t bytes;
    while ((bytes = recv(fd_, read, sizeof(read), 0)) > 0) {
    }
    return bytes == 0 || errno == ECONNRESET;
  }

 private:
  const int fd_;
};

void AwaitRefused(const Listener& listener, int64_t refused) {
  const absl::Time until = Clock::Real()->Now() + kLong;
  while (listener.refused_total() < refused) {
    ASSERT_LT(Clock::Real()->Now(), until) << listener.refused_total();
    std::this_thread::yield();
  }
}

// gRPC's own listener would never accept again.
TEST(ListenerTest, WithoutAFreeDescriptorItRefusesAndLaterServesAgain) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "SKIPPED: the sanitizer needs descriptors for its own checks";
#endif
  const auto listener = OpenAt("127.0.0.1:0");
  Server server(listener.get());
  ASSERT_TRUE(Answers("127.0.0.1", *listener));
  std::vector<RawClient> clients(20);
  {
    FewDescriptors none(0);
    for (RawClient& client : clients) client.Connect(listener->port());
    // Connections that ended before have left a few descriptors.
    AwaitRefused(*listener, 10);
  }
  EXPECT_TRUE(Answers("127.0.0.1", *listener));
}

TEST(ListenerTest, OneAddressHasOnlySoManyConnections) {
  const auto listener =
      *Listener::Open("127.0.0.1:0", {.in_all = 10, .from_one_address = 3});
  Server server(listener.get());
  {
    std::vector<RawClient> clients(5);
    for (RawClient& client : clients) client.Connect(listener->port());
    AwaitRefused(*listener, 2);
    EXPECT_TRUE(clients[3].AwaitClosed());
  }
  // gRPC closes those that their clients have closed.
  EXPECT_TRUE(Answers("127.0.0.1", *listener));
}

TEST(ListenerTest, WhoIsAccusedIsClosedAndCounted) {
  const auto listener = OpenAt("127.0.0.1:0");
  Server server(listener.get());
  RawClient client;
  client.Connect(listener->port());
  const absl::Time until = Clock::Real()->Now() + kLong;
  while (listener->refused_total() == 0) {  // It may not be accepted yet.
    ASSERT_LT(Clock::Real()->Now(), until);
    listener->Accuse(client.peer(), "has done what it must not");
    std::this_thread::yield();
  }
  EXPECT_TRUE(client.AwaitClosed());
}

TEST(ListenerTest, AConnectionThatSaysNothingIsClosed) {
  const auto listener = OpenAt("127.0.0.1:0");
  Server server(listener.get());
  RawClient silent;
  silent.Connect(listener->port());
  EXPECT_TRUE(silent.AwaitClosed());
}

// A checkpoint needs some, however many peers connect.
TEST(ListenerTest, ConnectionsLeaveTheProcessSomeDescriptors) {
  const auto listener = OpenAt("127.0.0.1:0");
  Server server(listener.get());
  ASSERT_TRUE(Answers("127.0.0.1", *listener));
  std::vector<RawClient> clients(60);
  FewDescriptors few(40);
  for (RawClient& client : clients) client.Connect(listener->port());
  AwaitRefused(*listener, 60 - 40 + 30);
  const int own = FewDescriptors::OpenOne();
  EXPECT_GE(own, 0);
  close(own);
}

}  // namespace
}  // namespace sluice
