#ifndef SLUICE_COMMON_RPC_DEADLINE_H_
#define SLUICE_COMMON_RPC_DEADLINE_H_

#include <grpc/support/time.h>
#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include "absl/time/time.h"

// Deadlines for gRPC calls. They use CLOCK_MONOTONIC, like Clock::Real. gRPC's
// C++ types turn any std::chrono time into a point of the wall clock; such a
// deadline passes early or never if that clock is set.
namespace sluice {

// This long from now, for alarms and a server's Shutdown. At most about 300
// years.
gpr_timespec FromNow(absl::Duration duration);

// Limits the call of `context` to `timeout` from now.
void SetTimeout(absl::Duration timeout, grpc::ClientContext* context);

// How long the caller of a server's call will still wait; InfiniteDuration if
// it has set no deadline.
absl::Duration TimeLeft(const grpc::ServerContext& call);

}  // namespace sluice

#endif  // SLUICE_COMMON_RPC_DEADLINE_H_
