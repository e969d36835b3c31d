#ifndef SLUICE_COMMON_RPC_DEADLINE_H_
#define SLUICE_COMMON_RPC_DEADLINE_H_

#include <grpc/support/time.h>
#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include "absl/time/time.h"

// Deadlines towards gRPC. They go by CLOCK_MONOTONIC, as Clock::Real does: a
// point of the wall clock, which gRPC's C++ types make of anything in
// std::chrono, ends early or never when somebody sets that clock.
namespace sluice {

// So long from now, for alarms and a server's Shutdown. At most some 300 years.
gpr_timespec FromNow(absl::Duration duration);

// Lets the call of `context` last at most `timeout` from now.
void SetTimeout(absl::Duration timeout, grpc::ClientContext* context);

// How long the caller of a server's call still waits for it; InfiniteDuration
// where it has set no deadline.
absl::Duration TimeLeft(const grpc::ServerContext& call);

}  // namespace sluice

#endif  // SLUICE_COMMON_RPC_DEADLINE_H_
