#ifndef SLUICE_COMMON_RPC_GRPC_LOG_H_
#define SLUICE_COMMON_RPC_GRPC_LOG_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace sluice {

// From now on what gRPC logs as an error is a line of this process's log:
// event=handshake_failed with OpenSSL's reason, or event=grpc_error; of either
// one a second, after a few, since strangers can cause any number. Left out is
// what gRPC reports of each client that connects to an address which the
// certificate does not name; Sluice checks roles instead. Call when a daemon
// begins, before it uses gRPC.
void LogGrpcErrors();

// Whether gRPC logs `message` of a handshake. The call that it was for says how
// that ended, so a tool, which has no log, leaves it out.
bool IsOfHandshake(absl::string_view message);

// Handshakes that have failed since LogGrpcErrors was called.
int64_t HandshakesFailed();

}  // namespace sluice

#endif  // SLUICE_COMMON_RPC_GRPC_LOG_H_
