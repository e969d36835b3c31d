#include "worker/exchange/pull_assembly.h"

#include "absl/strings/str_cat.h"

namespace sluice {

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

absl::Status PullAssembly::Finish() const {
  if (received_ == floats_) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the chunks ended after ", received_,
                                          " floats, expected ", floats_));
}

}  // namespace sluice
