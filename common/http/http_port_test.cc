#include "common/http/http_port.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "common/clock.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Connected to a port of this machine.
class RawClient {
 public:
  explicit RawClient(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<uint16_t>(port));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ =
        connect(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) == 0;
    // The tests' own deadline.
    const timeval patience = {.tv_sec = 30, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~RawClient() { close(fd_); }

  bool connected() const { return connected_; }
  bool Send(const std::string& text) {
    return send(fd_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  // What comes until the other end closes.
  std::string ReadAll() {
    std::string all;
    char buffer[4096];
    for (ssize_t n; (n = recv(fd_, buffer, sizeof(buffer), 0)) > 0;) {
      all.append(buffer, static_cast<size_t>(n));
    }
    return all;
  }

 private:
  const int fd_;
  bool connected_ = false;
};

class HttpPortTest : public testing::Test {
 protected:
  HttpPortTest() {
    auto opened = HttpPort::Open(
        "127.0.0.1:0", {{"/twice", [](const HttpArguments& arguments) {
                           const std::string word = arguments("word");
                           return HttpAnswer{.type = "text/words",
                                             .body = word + word};
                         }}});
    EXPECT_TRUE(opened.ok()) << opened.status();
    port_ = *std::move(opened);
  }

  // The whole answer to a request of these lines.
  std::string Ask(const std::string& first, const std::string& more = "") {
    RawClient client(port_->port());
    client.Send(absl::StrCat(first, " HTTP/1.1\r\nHost: x\r\n",
                             "Connection: close\r\n", more, "\r\n"));
    return client.ReadAll();
  }

  std::unique_ptr<HttpPort> port_;
};

TEST_F(HttpPortTest, AnswersAPageWithItsArguments) {
  const std::string answer = Ask("GET /twice?word=a%20b");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/words\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\n\r\na ba b"));
  EXPECT_THAT(Ask("GET /twice"), HasSubstr("Content-Length: 0\r\n"));
}

TEST_F(HttpPortTest, AnAddressMayNameTheHost) {
  EXPECT_THAT(Ask("GET http://x:80/twice?word=a"), HasSubstr("\r\n\r\naa"));
  EXPECT_THAT(Ask("GET HTTP://x/twice"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Ask("GET http://x"), StartsWith("HTTP/1.1 404"));
}

TEST_F(HttpPortTest, HeadHasNoBody) {
  const std::string answer = Ask("HEAD /twice?word=body");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 8\r\n"));
  EXPECT_THAT(answer, testing::Not(HasSubstr("bodybody")));
}

TEST_F(HttpPortTest, LetsABrowserLoadNothingFromElsewhere) {
  EXPECT_THAT(Ask("GET /twice"),
              HasSubstr("Content-Security-Policy: default-src 'none';"));
}

TEST_F(HttpPortTest, NamesThePagesThatThereAre) {
  const std::string answer = Ask("GET /thrice");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(answer, HasSubstr("\n/twice\n"));
}

TEST_F(HttpPortTest, ChangesNothing) {
  for (const char* method : {"POST", "PUT", "DELETE"}) {
    const std::string answer =
        Ask(absl::StrCat(method, " /twice"), "Content-Length: 0\r\n");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 405")) << method;
    EXPECT_THAT(answer, HasSubstr("Allow: GET, HEAD\r\n")) << method;
  }
}

TEST_F(HttpPortTest, EndsARequestWithMoreHeadersThanItHolds) {
  RawClient client(port_->port());
  client.Send("GET /twice HTTP/1.1\r\n");
  const std::string line = "a: " + std::string(1000, 'b') + "\r\n";
  int sent = 0;
  while (sent < 10000 && client.Send(line)) ++sent;
  EXPECT_LT(sent, 10000);  // 10 MB of headers.
  EXPECT_THAT(Ask("GET /twice"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpPortTest, GarbageEndsItsConnectionAlone) {
  RawClient client(port_->port());
  client.Send(std::string("\x16\x03\x01\0\xff garbage\r\n\r\n", 17));
  EXPECT_THAT(client.ReadAll(), testing::Not(HasSubstr(" 200 ")));
  EXPECT_THAT(Ask("GET /twice"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpPortTest, OneAddressHasAtMostSixteenConnections) {
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 16; ++i) {
    silent.push_back(std::make_unique<RawClient>(port_->port()));
    ASSERT_TRUE(silent.back()->connected());
  }
  EXPECT_EQ(Ask("GET /twice"), "");
  silent.clear();
  // The port sees the ends on its own thread.
  std::string answer;
  for (int i = 0; i < 1000 && answer.empty(); ++i) answer = Ask("GET /twice");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
}

// A client that sends a byte now and then is never silent.
TEST(SlowRequestTest, ARequestThatTakesTooLongIsCutOff) {
  HttpAccess access;
  access.request_limit = absl::Milliseconds(200);
  const auto page = [](const HttpArguments&) {
    return HttpAnswer{.body = "page"};
  };
  auto port = HttpPort::Open("127.0.0.1:0", {{"/", page}}, access);
  ASSERT_TRUE(port.ok()) << port.status();
  RawClient slow((*port)->port());
  const absl::Time begun = Clock::Real()->Now();
  ASSERT_TRUE(slow.Send("GET / HTTP/1.1\r\nHost: x\r\n"));
  EXPECT_EQ(slow.ReadAll(), "");
  // Before silence ends it, too.
  EXPECT_LT(Clock::Real()->Now() - begun, absl::Seconds(9));
  RawClient other((*port)->port());
  other.Send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(other.ReadAll(), StartsWith("HTTP/1.1 200"));
}

// A port with a token, and an action that is counted.
class GuardedPortTest : public testing::Test {
 protected:
  GuardedPortTest() {
    const HttpPage page = [](const HttpArguments&) {
      return HttpAnswer{.body = "page"};
    };
    HttpAccess access;
    access.hosts = {"localhost", "[::1]"};
    access.token = "secret";
    access.actions["/api/act"] = [this](const HttpArguments&) {
      ++acted_;
      return HttpAnswer{.body = "done"};
    };
    auto opened = HttpPort::Open("127.0.0.1:0",
                                 {{"/", page}, {"/api/look", page}}, access);
    EXPECT_TRUE(opened.ok()) << opened.status();
    port_ = *std::move(opened);
  }

  // The status code of the answer.
  std::string Ask(const std::string& first, const std::string& host,
                  const std::string& token) {
    RawClient client(port_->port());
    client.Send(absl::StrCat(first, " HTTP/1.1\r\nHost: ", host,
                             "\r\nConnection: close\r\nContent-Length: 0\r\n",
                             token.empty() ? "" : "X-Sluice-Token: ", token,
                             token.empty() ? "\r\n" : "\r\n\r\n"));
    return client.ReadAll().substr(9, 3);
  }

  int acted_ = 0;
  std::unique_ptr<HttpPort> port_;
};

TEST_F(GuardedPortTest, OnlyTheTokenOpensWhatIsBelowApi) {
  EXPECT_EQ(Ask("GET /", "localhost", ""), "200");
  for (const char* wrong : {"", "secreT", "secre", "secrets"}) {
    EXPECT_EQ(Ask("GET /api/look", "localhost", wrong), "403") << wrong;
    EXPECT_EQ(Ask("POST /api/act", "localhost", wrong), "403") << wrong;
  }
  EXPECT_EQ(acted_, 0);
  EXPECT_EQ(Ask("GET /api/look", "localhost", "secret"), "200");
  EXPECT_EQ(Ask("POST /api/act", "localhost", "secret"), "200");
  EXPECT_EQ(acted_, 1);
}

TEST_F(GuardedPortTest, OnlyPostActs) {
  EXPECT_EQ(Ask("GET /api/act", "localhost", "secret"), "404");
  EXPECT_EQ(Ask("POST /api/look", "localhost", "secret"), "404");
  EXPECT_EQ(Ask("PUT /api/act", "localhost", "secret"), "405");
  EXPECT_EQ(acted_, 0);
}

TEST_F(GuardedPortTest, AnotherNameForThisMachineIsRefused) {
  for (const char* host :
       {"elsewhere.example", "localhost.example:80", "127.0.0.1", ""}) {
    EXPECT_EQ(Ask("POST /api/act", host, "secret"), "421") << host;
    EXPECT_EQ(Ask("GET /", host, "secret"), "421") << host;
  }
  EXPECT_EQ(acted_, 0);
  EXPECT_EQ(Ask("POST http://elsewhere.example/api/act", "localhost", "secret"),
            "421");
  EXPECT_EQ(Ask("GET http://localhost", "localhost", ""), "200");
  for (const char* host : {"localhost:9000", "[::1]:80", "[::1]"}) {
    EXPECT_EQ(Ask("GET /", host, ""), "200") << host;
  }
}

TEST_F(HttpPortTest, APortThatIsTakenIsRefused) {
  const std::string taken = absl::StrCat("127.0.0.1:", port_->port());
  EXPECT_THAT(HttpPort::Open(taken, {}).status().message(), HasSubstr(taken));
}

}  // namespace
}  // namespace sluice
