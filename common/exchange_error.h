#ifndef SLUICE_COMMON_EXCHANGE_ERROR_H_
#define SLUICE_COMMON_EXCHANGE_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "proto/status_details.pb.h"

namespace sluice {

using ExchangeReason = proto::ExchangeError::Reason;

inline constexpr char kExchangeErrorUrl[] =
    "type.googleapis.com/sluice.proto.ExchangeError";

// `status` with what a caller of Exchange must know of it besides its code;
// REASON_UNSPECIFIED adds nothing. REQUIRES: it is an error.
inline absl::Status WithReason(ExchangeReason reason, absl::Status status) {
  if (reason == proto::ExchangeError::REASON_UNSPECIFIED) return status;
  proto::ExchangeError error;
  error.set_reason(reason);
  status.SetPayload(kExchangeErrorUrl, absl::Cord(error.SerializeAsString()));
  return status;
}

// REASON_UNSPECIFIED where the status carries none that is known here.
inline ExchangeReason ReasonOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kExchangeErrorUrl);
  proto::ExchangeError error;
  if (!payload.has_value() || !error.ParseFromString(std::string(*payload))) {
    return proto::ExchangeError::REASON_UNSPECIFIED;
  }
  return error.reason();
}

}  // namespace sluice

#endif  // SLUICE_COMMON_EXCHANGE_ERROR_H_
