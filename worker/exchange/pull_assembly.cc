// What holds: the first `received_` floats of the slice are here, all of
// `version_`. While none is, the caller's question stands; from the first on
// exactly `version_` is asked for, even if the caller takes a newer one.
//
// A slice of 10 floats, "version 5 or newer":
//
//   Ask                 5 or newer, from 0
//   Accept(6, 0, 4)     version 6; 4 are here
//   End(UNAVAILABLE)    as it is: the call is to be repeated
//   Ask                 exactly 6, from 4
//   Accept(6, 4, 6)     10 are here: End is OK, whatever the call ends with
//
// or, where the shard has no version 6 any more:
//
//   Ask                 exactly 6, from 4
//   End(ABORTED)        kResourceExhausted: repeat
//   BeginAnew           true: nothing is here
//   Ask                 5 or newer, from 0
#include "worker/exchange/pull_assembly.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

PullAssembly::Question PullAssembly::Ask() {
  asked_at_ = received_;
  if (received_ == 0) return {wanted_, exact_, 0};
  return {version_, true, received_};
}

absl::Status PullAssembly::Accept(Version version, int64_t offset,
                                  int64_t floats) {
  if (offset != received_ || floats < 1 || floats > floats_ - received_) {
    return absl::DataLossError(absl::StrCat(
        "a chunk of ", floats, " floats came at ", offset, ", expected 1 to ",
        floats_ - received_, " floats at ", received_));
  }
  if (received_ > 0 && version != version_) {
    return absl::DataLossError(
        absl::StrCat("a chunk of version ", version.value(),
                     " came after chunks of version ", version_.value()));
  }
  if (version < wanted_ || (exact_ && version != wanted_)) {
    return absl::DataLossError(absl::StrCat(
        "a chunk of version ", version.value(), " came, expected version ",
        wanted_.value(), exact_ ? "" : " or newer"));
  }
  version_ = version;
  received_ += floats;
  return absl::OkStatus();
}

absl::Status PullAssembly::End(const absl::Status& status) {
  if (received_ == floats_) return absl::OkStatus();
  if (status.ok()) {
    return absl::DataLossError(absl::StrCat(
        "the chunks ended after ", received_, " floats, expected ", floats_));
  }
  gone_ = absl::IsResourceExhausted(status);
  // Exactly that version was asked for only because its first chunks are here.
  if (absl::IsAborted(status) && asked_at_ > 0 && !exact_) {
    gone_ = true;
    return absl::ResourceExhaustedError(
        absl::StrCat("begins anew: ", status.message()));
  }
  return status;
}

bool PullAssembly::BeginAnew() {
  if (!std::exchange(gone_, false) || received_ == 0) return false;
  received_ = 0;
  return true;
}

}  // namespace sluice
