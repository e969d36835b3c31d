#include "common/rpc/status_conversion.h"

#include <string>

namespace sluice {
namespace {

// Both libraries number the codes as google.rpc.Code does, from 0 to this.
constexpr int kLastCode = 16;

int KnownCode(int code) {
  return code >= 0 && code <= kLastCode
             ? code
             : static_cast<int>(absl::StatusCode::kUnknown);
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(
      static_cast<grpc::StatusCode>(KnownCode(status.raw_code())),
      std::string(status.message()));
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(
      static_cast<absl::StatusCode>(KnownCode(status.error_code())),
      status.error_message());
}

}  // namespace sluice
