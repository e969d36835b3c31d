// Joined records only what Check has passed, so whoever is refused leaves no
// trace. Before the run begins Lost erases a peer from found_; from then on
// nothing is erased.
//
// Worker 0 has joined with training data A:
//
//   worker 1 comes with B    refused: A at worker 0
//   worker 0 dies            nobody has A any more
//   worker 1 comes with B    joins; now A would be refused
//   RunBegins
//   worker 1 dies, comes back with A    refused: B before at worker 1, whose
//                                       gradients of B are in the weights
#include "ps_server/coordinator/members/input_agreement.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// Whoever stops a run may go on with it on other devices; and from a checkpoint
// on the initial weights do not matter.
constexpr const char* kOfAGeneration[] = {"device", "initial weights"};

}  // namespace

InputAgreement::InputAgreement(std::set<std::string> may_differ, Inputs began)
    : may_differ_(std::move(may_differ)), began_(std::move(began)) {}

std::string InputAgreement::OtherThan(const std::string& name,
                                      const std::string& value,
                                      Peer peer) const {
  const auto values = found_.find(name);
  if (values == found_.end()) return "";
  for (const auto& [other, peers] : values->second) {
    if (other == value) continue;
    for (const Peer& who : peers) {
      if (who == peer && !begun_) continue;
      return absl::StrCat(name, " is \"", value, "\" here, \"", other,
                          who == peer ? "\" before at " : "\" at ",
                          who.ToString());
    }
  }
  return "";
}

absl::Status InputAgreement::Check(Peer peer, const Inputs& inputs) const {
  size_t names = found_.size();
  for (const auto& [name, value] : inputs) {
    if (found_.count(name) == 0 && ++names > kMost) {
      return absl::ResourceExhaustedError(
          absl::StrCat(peer.ToString(), ": names the input \"", name,
                       "\", and ", kMost, " others are named already"));
    }
    if (may_differ_.count(name) > 0) continue;
    const auto began = began_.find(name);
    if (began != began_.end() && began->second != value) {
      return absl::FailedPreconditionError(
          absl::StrCat(peer.ToString(), ": ", name, " is \"", value,
                       "\" here, \"", began->second, "\" when the run began"));
    }
    const std::string other = OtherThan(name, value, peer);
    if (!other.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat(peer.ToString(), ": ", other));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> InputAgreement::Joined(Peer peer,
                                                const Inputs& inputs) {
  Lost(peer);
  std::vector<std::string> differ;
  for (const auto& [name, value] : inputs) {
    std::map<std::string, std::set<Peer>>& values = found_[name];
    const bool is_new = values.count(value) == 0;
    std::string other = OtherThan(name, value, peer);
    if (is_new && !other.empty()) {
      differ.push_back(absl::StrCat(peer.ToString(), ": ", other));
    }
    if (!is_new || values.size() < kMost) values[value].insert(peer);
  }
  return differ;
}

Inputs InputAgreement::Agreed() const {
  Inputs agreed = began_;
  for (const auto& [name, values] : found_) {
    const bool kept =
        may_differ_.count(name) == 0 &&
        std::find(std::begin(kOfAGeneration), std::end(kOfAGeneration), name) ==
            std::end(kOfAGeneration);
    if (kept && !values.empty()) agreed[name] = values.begin()->first;
  }
  return agreed;
}

void InputAgreement::Lost(Peer peer) {
  if (begun_) return;
  for (auto input = found_.begin(); input != found_.end();) {
    auto& values = input->second;
    for (auto value = values.begin(); value != values.end();) {
      value->second.erase(peer);
      value = value->second.empty() ? values.erase(value) : std::next(value);
    }
    input = values.empty() ? found_.erase(input) : std::next(input);
  }
}

}  // namespace sluice
