#include "ps_server/coordinator/members/instruction_agreement.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr auto kNone = proto::INSTRUCTION_SET_UNSPECIFIED;

}  // namespace

absl::Status InstructionAgreement::Check(Peer peer, Set widest) const {
  // Sets are numbered from narrow to wide, and none is wider than nothing.
  if (!exact_ || peer.role != Role::kWorker || widest == kNone ||
      widest >= agreed_) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      peer.ToString(), ": has no wider instructions than ",
      proto::InstructionSet_Name(widest), ", and the run computes with ",
      proto::InstructionSet_Name(agreed_),
      ", which all had when it began (worker.instruction_set: WIDEST); under "
      "SYNC every worker must"));
}

void InstructionAgreement::Joined(Peer peer, Set widest) {
  if (widest != kNone) living_[peer] = widest;
}

std::optional<InstructionAgreement::Set> InstructionAgreement::Agree() {
  if (agreed_ != kNone || living_.empty()) return std::nullopt;
  agreed_ = std::ranges::min_element(living_, {}, [](const auto& entry) {
              return entry.second;
            })->second;
  return agreed_;
}

}  // namespace sluice
