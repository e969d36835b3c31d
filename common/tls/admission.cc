#include "common/tls/admission.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice {

absl::StatusOr<Admission::Place> Admission::Admit(
    const grpc::ServerContextBase& call, Rpc rpc) {
  Place place;
  SLUICE_ASSIGN_OR_RETURN(place.caller_, security_.Admit(call, rpc));
  place.connection_ = call.peer();
  Calls& calls = calls_[place.connection_];
  if (calls.live >= kMostCalls) {
    if (++calls.refused == kMostRefused && listener_ != nullptr) {
      listener_->Accuse(place.connection_,
                        absl::StrCat("has made ", kMostRefused,
                                     " calls beyond those that it may have"));
    }
    return security_.RefuseCall(absl::ResourceExhaustedError(absl::StrCat(
        "a connection may have ", kMostCalls, " calls at once, and this ",
        RpcName(rpc), " would be one more")));
  }
  ++calls.live;
  place.admission_ = this;
  if (listener_ != nullptr) {
    listener_->BeginReading(place.connection_);
    place.reading_ = true;
  }
  place.Took(0);  // Its headers.
  return place;
}

void Admission::End(const std::string& connection) {
  const auto it = calls_.find(connection);
  if (--it->second.live == 0) calls_.erase(it);
}

}  // namespace sluice
