#include "common/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "spdlog/sinks/ostream_sink.h"
#include "third_party/spdlog.h"

namespace sluice {
namespace {

// What the process logs when gRPC says `message`.
std::string LoggedOf(const char* message) {
  std::ostringstream text;
  auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text);
  auto logger = std::make_shared<spdlog::logger>("test", sink);
  logger->set_pattern("%l %v");
  spdlog::set_default_logger(logger);
  LogGrpcErrors();
  // gRPC sets it when it starts; until then it logs nothing at all.
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
  gpr_log(GPR_ERROR, "%s", message);
  return text.str();
}

TEST(GrpcLogTest, HandshakesThatFailAreCountedAndSomeAreEvents) {
  const char failed[] =
      "Handshake failed with fatal error SSL_ERROR_SSL: "
      "error:0A000086:SSL routines::certificate verify failed.";
  EXPECT_EQ(LoggedOf(failed),
            "warning event=handshake_failed reason=\"SSL_ERROR_SSL: "
            "error:0A000086:SSL routines::certificate verify failed.\" "
            "failed_total=1\n");
  std::string more;
  for (int i = 0; i < 100; ++i) more += LoggedOf(failed);
  // A slow machine may take longer than a second.
  EXPECT_LE(std::count(more.begin(), more.end(), '\n'), 50);
  EXPECT_EQ(HandshakesFailed(), 101);
}

TEST(GrpcLogTest, AnAddressThatTheCertificateDoesNotNameIsNoEvent) {
  EXPECT_EQ(LoggedOf("No match found for server name: 127.0.0.1."), "");
}

TEST(GrpcLogTest, AnyOtherErrorIsKept) {
  EXPECT_EQ(LoggedOf("out of luck"),
            "error event=grpc_error error=\"out of luck\"\n");
}

TEST(GrpcLogTest, WhatIsOfAHandshakeIsToldFromOtherErrors) {
  EXPECT_TRUE(IsOfHandshake("Handshake failed with fatal error SSL_ERROR_SSL"));
  EXPECT_TRUE(IsOfHandshake("No match found for server name: 127.0.0.1."));
  EXPECT_FALSE(IsOfHandshake("out of luck"));
}

}  // namespace
}  // namespace sluice
