#ifndef SLUICE_COMMON_RPC_CHANNEL_OPTIONS_H_
#define SLUICE_COMMON_RPC_CHANNEL_OPTIONS_H_

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace sluice {

// The largest message that either side accepts, but for the status of a run; a
// larger one is refused with RESOURCE_EXHAUSTED. It has room for the largest
// chunk a job may set (limits.chunk_bytes, 4 MiB, which WireFormat turns into
// 6.1 MiB if all floats are statistics sent in FP16) with its header. It also
// has room for any message of a session; the largest is a Join, which carries
// the job's text.
inline constexpr int kMaxMessageBytes = (6 << 20) + (128 << 10);

// A peer that leaves a keepalive ping unanswered for this long is gone.
inline constexpr int kKeepaliveTimeoutMs = 10000;

// When a connection on which nothing comes ends.
struct Keepalive {
  // It is pinged. This is twice the default lease (5 s), which decides first.
  // The ping only frees calls that would otherwise hang on a peer that vanished
  // without closing its connection.
  int time_ms = 10000;
  int timeout_ms = kKeepaliveTimeoutMs;  // For the answer.

  // So that a peer that is silent for `silence` is gone; at most a week.
  static Keepalive Within(absl::Duration silence);
};

// How much a sender may send ahead of what its receiver has asked for.
enum class Window {
  // The rest of the message that it has asked for: one chunk for each round
  // trip. What comes is still in the cache when it is read, and nobody can make
  // the receiver hold more.
  kMessage,
  // As much as is on the way during a round trip, which gRPC measures; up to
  // 16 MiB.
  kRoundTrip,
};
// On a connection to `address`, "host:port" or a socket of this host's. Plain
// text within one host has no round trip to fill, and there the cache counts
// more.
Window WindowTo(absl::string_view address, bool tls);

// For weights and gradients. Each channel has its own connection, so that a
// chunk never delays the messages of another channel. `window` is for what
// comes on it. The server's keepalive must be the same.
grpc::ChannelArguments BulkChannelArguments(Window window,
                                            const Keepalive& keepalive = {});

// For sessions: small messages that must not wait, on a connection of their own
// that notices a vanished peer.
grpc::ChannelArguments SessionChannelArguments();

// For whoever asks a coordinator for the status, which has every worker.
grpc::ChannelArguments StatusChannelArguments();

// The server's side of both, with Window::kMessage, since it does not know yet
// whom it may trust. A port that another process listens on is refused.
void ApplyServerOptions(grpc::ServerBuilder* builder,
                        const Keepalive& keepalive = {});

}  // namespace sluice

#endif  // SLUICE_COMMON_RPC_CHANNEL_OPTIONS_H_
