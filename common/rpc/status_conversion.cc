#include "common/rpc/status_conversion.h"

#include <string>

#include "absl/strings/ascii.h"
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

// gRPC passes on no status whose headers take more than 8 KiB: whoever called
// then hears of that, with another code. In a header a byte that is no
// printable character of ASCII takes three. With details the message travels in
// them as well, as base64.
constexpr int kMostInHeader = 7000;
constexpr int kMostBesideDetails = 3000;

// The beginning of `message` that takes at most so many bytes in a header.
std::string CutTo(int most, absl::string_view message) {
  size_t end = 0;
  for (int taken = 0; end < message.size(); ++end) {
    taken += absl::ascii_isprint(message[end]) && message[end] != '%' ? 1 : 3;
    if (taken > most) break;
  }
  if (end == message.size()) return std::string(message);
  // Not within a character of UTF-8.
  while (end > 0 && (message[end] & 0xC0) == 0x80) --end;
  return absl::StrCat(message.substr(0, end), "...");
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  proto::StatusDetails details;
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    details.set_code(status.raw_code());
    details.set_message(CutTo(kMostBesideDetails, status.message()));
    google::protobuf::Any* added = details.add_details();
    added->set_type_url(std::string(url));
    added->set_value(std::string(payload));
  });
  const std::string message = details.details().empty()
                                  ? CutTo(kMostInHeader, status.message())
                                  : details.message();
  return grpc::Status(
      static_cast<grpc::StatusCode>(KnownCode(status.raw_code())), message,
      details.SerializeAsString());
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
