#ifndef SLUICE_COMMON_TLS_HANDSHAKE_LOG_H_
#define SLUICE_COMMON_TLS_HANDSHAKE_LOG_H_

namespace sluice {

// From now on what gRPC logs as an error is a line of this process's log:
// event=handshake_failed with OpenSSL's reason, or event=grpc_error. Left out
// is what gRPC reports of each client that connects to an address which the
// certificate does not name; Sluice checks roles instead. Call when a process
// begins to serve TLS; again is harmless.
void LogHandshakes();

}  // namespace sluice

#endif  // SLUICE_COMMON_TLS_HANDSHAKE_LOG_H_
