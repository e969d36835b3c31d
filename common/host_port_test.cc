#include "common/host_port.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(HostPortTest, NamesAndAddressesOfBothKindsAreTakenApartAndPutTogether) {
  const struct {
    const char* text;
    const char* host;
    int port;
  } kCases[] = {{"host:7000", "host", 7000},
                {"10.0.0.1:1", "10.0.0.1", 1},
                {"[::]:7000", "::", 7000},
                {"[fd00::1]:0", "fd00::1", 0},
                {":65535", "", 65535},
                {"0.0.0.0:0", "0.0.0.0", 0},
                {"[fe80::1%eth0]:7", "fe80::1%eth0", 7}};
  for (const auto& [text, host, port] : kCases) {
    const auto parsed = ParseHostPort(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->host, host);
    EXPECT_EQ(parsed->port, port);
    EXPECT_EQ(parsed->ToString(), text);
  }
}

TEST(HostPortTest, WhatIsNoAddressIsRefusedWithWhatWasExpected) {
  for (const char* text :
       {"", "nonsense", "host:", "host:x", "host:-1", "host:65536", "::1:7000",
        "fd00::1", "[::1]", "[::1:7000", "::1]:7000", "[host]:7000"}) {
    EXPECT_EQ(ParseHostPort(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_EQ(ParseHostPort("::1:7000").status().message(),
            "must be \"host:port\" or \"[IPv6]:port\" with a port of 0 to "
            "65535, is \"::1:7000\"");
}

TEST(HostPortTest, EveryInterfaceIsWrittenInThreeWays) {
  for (const char* text : {":1", "0.0.0.0:1", "[::]:1"}) {
    EXPECT_TRUE(ParseHostPort(text)->IsEveryInterface()) << text;
  }
  EXPECT_FALSE(ParseHostPort("[::1]:1")->IsEveryInterface());
}

TEST(HostPortTest, OnlyThisMachineReachesTheLoopback) {
  for (const char* text :
       {"127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "localhost:1"}) {
    EXPECT_TRUE(ParseHostPort(text)->IsLoopback()) << text;
  }
  for (const char* text :
       {":1", "0.0.0.0:1", "[::]:1", "10.0.0.1:1", "128.0.0.1:1", "[fd00::1]:1",
        "[::ffff:7f00:1]:1", "localhost.example:1", "127.0.0.1.example:1"}) {
    EXPECT_FALSE(ParseHostPort(text)->IsLoopback()) << text;
  }
}

TEST(HostPortTest, ASocketOfThisHostIsNamedAsGrpcNamesIt) {
  EXPECT_TRUE(IsLocalSocket("unix:/run/a"));
  EXPECT_TRUE(IsLocalSocket("unix-abstract:a"));
  EXPECT_FALSE(IsLocalSocket("unix-1.train:7000"));
  EXPECT_FALSE(IsLocalSocket("127.0.0.1:1"));
}

}  // namespace
}  // namespace sluice
