#ifndef SLUICE_COMMON_RPC_STATUS_CONVERSION_H_
#define SLUICE_COMMON_RPC_STATUS_CONVERSION_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace sluice {

// Converts a status between gRPC's and Abseil's type. Abseil's payloads are
// gRPC's details (StatusDetails of proto/status_details.proto). Code and message
// stay the same, but that a code that either library does not know becomes
// kUnknown, and a message of some KiB is cut off on its way to gRPC.
grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

// The same for the first call over a connection to a coordinator: if it did not
// come about because the other side closed it, says that plain text to a port
// that expects TLS ends so; if the other side does not know the call, that it
// is not the lead.
absl::Status FromFirstCall(const grpc::Status& status);

}  // namespace sluice

#endif  // SLUICE_COMMON_RPC_STATUS_CONVERSION_H_
