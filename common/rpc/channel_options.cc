#include "common/rpc/channel_options.h"

#include <grpc/grpc.h>

#include <algorithm>

#include "common/host_port.h"

namespace sluice {
namespace {

// gRPC 1.51 has no other way to open the window of a connection: with the probe
// it is up to 16 MiB, without it the rest of a message. On a way of 10 ms that
// is 15 times the speed, over TLS on loopback 1.2 times; but in plain text two
// workers of two cores lose a tenth (bench/exchange.cc).
int ProbesBandwidth(Window window) { return window == Window::kRoundTrip; }

// Largest HTTP/2 frame. A default chunk is one frame instead of 64.
constexpr int kFrameBytes = 1 << 20;

// A message counts as written once at most this much of it is still waiting to
// be sent, and then the next one may be made. With gRPC's 64 KiB a sender makes
// its next chunk only when the connection is almost idle. With the size of a
// default chunk, an exchange of 64 MiB rises from 1.6 to 2.1 GB/s each way.
constexpr int kWriteBufferBytes = 1 << 20;

// The first attempts to connect follow each other quickly, because a peer that
// is starting is ready within a fraction of a second. The pause never exceeds
// one second, as sessions promise. One attempt may take as long as a lost SYN
// packet and its repetition.
constexpr int kFirstBackoffMs = 100;
constexpr int kLongestBackoffMs = 1000;
constexpr int kConnectTimeoutMs = 3000;

// A connection has this long for its handshakes, of TLS and of HTTP/2; gRPC's
// own limit is two minutes.
constexpr int kHandshakeTimeoutMs = 10000;
// Calls at once on one connection. A worker has a pull, a prefetch and a push,
// which may be eight calls, and for a moment those that it has given up.
constexpr int kMostStreams = 32;

// Of Keepalive::Within, so that no part of it is 0, nor more than an int.
constexpr absl::Duration kShortestSilence = absl::Milliseconds(4);
constexpr absl::Duration kLongestSilence = absl::Hours(7 * 24);

grpc::ChannelArguments CommonArguments(Window window,
                                       const Keepalive& keepalive,
                                       int most_received = kMaxMessageBytes) {
  grpc::ChannelArguments arguments;
  // Channels to the same address would otherwise share one connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Ignores proxies named by the environment.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, ProbesBandwidth(window));
  arguments.SetInt(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, most_received);
  arguments.SetInt(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive.time_ms);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive.timeout_ms);
  // A call that waits for long sends nothing; it is watched all the same.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstBackoffMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestBackoffMs);
  // gRPC's name for the longest duration of one attempt.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  return arguments;
}

}  // namespace

Keepalive Keepalive::Within(absl::Duration silence) {
  // gRPC takes an int, of which the largest, 25 days, means never.
  const auto all = static_cast<int>(absl::ToInt64Milliseconds(
      std::clamp(silence, kShortestSilence, kLongestSilence)));
  return {.time_ms = all / 4, .timeout_ms = all - all / 4};
}

Window WindowTo(absl::string_view address, bool tls) {
  const auto at = ParseHostPort(address);
  const bool within = IsLocalSocket(address) || (at.ok() && at->IsLoopback());
  return within && !tls ? Window::kMessage : Window::kRoundTrip;
}

grpc::ChannelArguments BulkChannelArguments(Window window,
                                            const Keepalive& keepalive) {
  grpc::ChannelArguments arguments = CommonArguments(window, keepalive);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
  arguments.SetInt(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, kWriteBufferBytes);
  return arguments;
}

grpc::ChannelArguments SessionChannelArguments() {
  return CommonArguments(Window::kMessage, Keepalive());
}

grpc::ChannelArguments StatusChannelArguments() {
  return CommonArguments(Window::kMessage, Keepalive(), /*most_received=*/-1);
}

void ApplyServerOptions(grpc::ServerBuilder* builder,
                        const Keepalive& keepalive) {
  builder->SetMaxReceiveMessageSize(kMaxMessageBytes);
  // The status of many workers; whoever receives has a limit of its own.
  builder->SetMaxSendMessageSize(-1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE,
                              ProbesBandwidth(Window::kMessage));
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE,
                              kWriteBufferBytes);
  // If two processes shared a port, each would get a part of the calls.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive.time_ms);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                              keepalive.timeout_ms);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                              kHandshakeTimeoutMs);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostStreams);
  // A peer that pings more often than this is at fault. Half the keepalive
  // time, so that a delayed ping followed by a prompt one is not.
  builder->AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      keepalive.time_ms / 2);
}

}  // namespace sluice
