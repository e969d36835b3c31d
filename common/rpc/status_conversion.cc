#include "common/rpc/status_conversion.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/status_details.pb.h"

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
  proto::StatusDetails details;
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    details.set_code(status.raw_code());
    details.set_message(std::string(status.message()));
    google::protobuf::Any* added = details.add_details();
    added->set_type_url(std::string(url));
    added->set_value(std::string(payload));
  });
  return grpc::Status(
      static_cast<grpc::StatusCode>(KnownCode(status.raw_code())),
      std::string(status.message()), details.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status out(
      static_cast<absl::StatusCode>(KnownCode(status.error_code())),
      status.error_message());
  proto::StatusDetails details;
  // What cannot be read says nothing: the code and the message still do.
  if (!details.ParseFromString(status.error_details())) return out;
  for (const google::protobuf::Any& detail : details.details()) {
    out.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return out;
}

absl::Status FromFirstCall(const grpc::Status& status) {
  absl::Status out = FromGrpcStatus(status);
  if (absl::IsUnimplemented(out)) {
    return absl::UnimplementedError(
        "whoever answers is not the lead of a run (shard 0), which alone is a "
        "coordinator");
  }
  if (!absl::StrContains(out.message(), "failed to connect") ||
      !absl::StrContains(out.message(), "Socket closed")) {
    return out;
  }
  return absl::Status(
      out.code(),
      absl::StrCat(out.message(),
                   "; a port that expects TLS closes a connection in plain "
                   "text: is --tls missing?"));
}

}  // namespace sluice
