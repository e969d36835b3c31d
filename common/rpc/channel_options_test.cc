#include "common/rpc/channel_options.h"

#include <grpc/grpc.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(WindowToTest, OnlyPlainTextWithinAHostKeepsToTheMessage) {
  for (const char* address : {"127.0.0.1:7000", "localhost:7000", "[::1]:1",
                              "unix-abstract:worker-0", "unix:/run/worker"}) {
    EXPECT_EQ(WindowTo(address, /*tls=*/false), Window::kMessage) << address;
    EXPECT_EQ(WindowTo(address, /*tls=*/true), Window::kRoundTrip) << address;
  }
  for (const char* address : {"10.0.0.7:7000", "shard-1.train:7000"}) {
    EXPECT_EQ(WindowTo(address, /*tls=*/false), Window::kRoundTrip) << address;
    EXPECT_EQ(WindowTo(address, /*tls=*/true), Window::kRoundTrip) << address;
  }
}

// gRPC takes the probe for what opens the window; the server never has it.
int64_t ProbeOf(const grpc::ChannelArguments& arguments) {
  const grpc_channel_args all = arguments.c_channel_args();
  for (size_t i = 0; i < all.num_args; ++i) {
    if (std::string(all.args[i].key) == GRPC_ARG_HTTP2_BDP_PROBE) {
      return all.args[i].value.integer;
    }
  }
  return -1;
}

TEST(BulkChannelTest, OpensItsWindowAsItIsTold) {
  EXPECT_EQ(ProbeOf(BulkChannelArguments(Window::kMessage)), 0);
  EXPECT_EQ(ProbeOf(BulkChannelArguments(Window::kRoundTrip)), 1);
  EXPECT_EQ(ProbeOf(SessionChannelArguments()), 0);
}

TEST(KeepaliveTest, IsOfTheSilenceAskedForUpToAWeek) {
  const auto within = [](absl::Duration silence) {
    const Keepalive keepalive = Keepalive::Within(silence);
    EXPECT_GE(keepalive.time_ms, 1) << silence;
    EXPECT_GE(keepalive.timeout_ms, keepalive.time_ms) << silence;
    return absl::Milliseconds(keepalive.time_ms) +
           absl::Milliseconds(keepalive.timeout_ms);
  };
  const absl::Duration week = absl::Hours(7 * 24);
  EXPECT_EQ(Keepalive::Within(absl::Seconds(5)).time_ms, 1250);
  EXPECT_EQ(within(absl::Seconds(5)), absl::Seconds(5));
  EXPECT_EQ(within(week), week);
  // 2^32 ms and 704 ms.
  EXPECT_EQ(within(absl::Seconds(4294968)), week);
  EXPECT_EQ(within(absl::Seconds(3e10)), week);
  EXPECT_EQ(within(absl::InfiniteDuration()), week);
  EXPECT_EQ(within(absl::Microseconds(1)), absl::Milliseconds(4));
}

}  // namespace
}  // namespace sluice
