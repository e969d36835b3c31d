#include "common/rpc/channel_options.h"

#include <grpc/grpc.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(WindowToTest, OnlyPlainTextWithinAHostKeepsToTheMessage) {
  for (const char* address : {"127.0.0.1:7000", "localhost:7000", "[::1]:1"}) {
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

}  // namespace
}  // namespace sluice
