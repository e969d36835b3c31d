#ifndef SLUICE_COMMON_RPC_CHANNEL_OPTIONS_H_
#define SLUICE_COMMON_RPC_CHANNEL_OPTIONS_H_

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

namespace sluice {

// The largest message either side takes; a larger one is refused with
// RESOURCE_EXHAUSTED. The largest chunk a job may set (limits.chunk_bytes,
// 4 MiB, which WireFormat makes 6.1 MiB where all of it are statistics in FP16)
// and its header fit, and so does any message of a session (the largest is a
// Join, which carries the job's text).
inline constexpr int kMaxMessageBytes = (6 << 20) + (128 << 10);

// A peer that has answered nothing for so long, although it was asked, is gone.
inline constexpr int kKeepaliveTimeoutMs = 10000;

// For weights and gradients. Each channel made with these has a connection of
// its own, so that a chunk never stands before another channel's messages.
grpc::ChannelArguments BulkChannelArguments();

// For sessions: small messages that must not wait, on a connection of their
// own that notices a peer that vanished.
grpc::ChannelArguments SessionChannelArguments();

// The other end of both. A port that another process listens on is refused.
void ApplyServerOptions(grpc::ServerBuilder* builder);

}  // namespace sluice

#endif  // SLUICE_COMMON_RPC_CHANNEL_OPTIONS_H_
