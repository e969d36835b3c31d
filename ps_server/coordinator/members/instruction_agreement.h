#ifndef SLUICE_PS_SERVER_COORDINATOR_MEMBERS_INSTRUCTION_AGREEMENT_H_
#define SLUICE_PS_SERVER_COORDINATOR_MEMBERS_INSTRUCTION_AGREEMENT_H_

#include <map>
#include <optional>

#include "absl/status/status.h"
#include "proto/job.pb.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// Which vector instructions a run computes with whose job leaves that to its
// processes (worker.instruction_set: WIDEST): the widest that all have with
// whom it begins. Those who compute name the widest that they have when they
// join; whoever names none does not take part.
//
// Not thread-safe: call from the coordinator.
class InstructionAgreement {
 public:
  using Set = proto::InstructionSet;

  // `agreed`: in an earlier generation; unspecified: nothing yet. `exact`:
  // workers must compute with the same.
  InstructionAgreement(Set agreed, bool exact)
      : exact_(exact), agreed_(agreed) {}

  // kFailedPrecondition: a worker lacks what was agreed; names both.
  absl::Status Check(Peer peer, Set widest) const;
  // It has passed the check and joined.
  void Joined(Peer peer, Set widest);
  void Lost(Peer peer) { living_.erase(peer); }

  // All are here with whom the run begins. What they agree on; nothing: it was
  // agreed before, or nobody takes part.
  std::optional<Set> Agree();

 private:
  const bool exact_;  // Constant after construction.

  Set agreed_;
  std::map<Peer, Set> living_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_MEMBERS_INSTRUCTION_AGREEMENT_H_
