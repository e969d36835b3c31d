#ifndef SLUICE_PS_SERVER_COORDINATOR_MEMBERS_INPUT_AGREEMENT_H_
#define SLUICE_PS_SERVER_COORDINATOR_MEMBERS_INPUT_AGREEMENT_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// What decides the bits of a run besides the job file, as one process found
// it: "device", "training data", "initial weights", each as a text that is
// equal for what is equal.
using Inputs = std::map<std::string, std::string>;

// Whether the processes of a run found the same. Until the run begins only the
// living count, so that one with the wrong data can be started again with the
// right; from then on what anybody has ever found counts, because the weights
// come from it.
//
// Not thread-safe: call from the coordinator.
class InputAgreement {
 public:
  // A difference in one of `may_differ` is told, not refused. `began`: what was
  // agreed in an earlier generation of the run, which nobody may differ from.
  explicit InputAgreement(std::set<std::string> may_differ, Inputs began = {});

  // All peers together name at most so many inputs, and of one that may differ
  // so many values are remembered.
  static constexpr int kMost = 64;

  // kFailedPrecondition: names the input, both values and who has the other.
  // kResourceExhausted: one input too many.
  absl::Status Check(Peer peer, const Inputs& inputs) const;

  // The peer has joined with inputs that passed the check. Returns, for
  // people, which of those that may differ now do.
  std::vector<std::string> Joined(Peer peer, const Inputs& inputs);
  // Its life is over.
  void Lost(Peer peer);
  void RunBegins() { begun_ = true; }
  // What the processes had to agree on and have found, and what was agreed
  // before: what holds for later generations, too.
  Inputs Agreed() const;

 private:
  // A peer other than `peer` with another value than `value`; what the run has
  // begun with counts, whoever found it.
  std::string OtherThan(const std::string& name, const std::string& value,
                        Peer peer) const;

  // Constant after construction.
  const std::set<std::string> may_differ_;
  const Inputs began_;

  bool begun_ = false;
  // By name and value: who found it.
  std::map<std::string, std::map<std::string, std::set<Peer>>> found_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_MEMBERS_INPUT_AGREEMENT_H_
