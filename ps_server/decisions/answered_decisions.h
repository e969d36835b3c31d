#ifndef SLUICE_PS_SERVER_DECISIONS_ANSWERED_DECISIONS_H_
#define SLUICE_PS_SERVER_DECISIONS_ANSWERED_DECISIONS_H_

#include <cstdint>
#include <deque>
#include <variant>

#include "common/status_macros.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// Which of the decisions under way on a shard it answers with Executed, which
// speaks for all decisions up to its number: the last one before each Commit,
// the last of all, and any whose answer says something of its own. The others
// it stands for take next to no time, so that nobody waits any longer for its
// answer.
//
// Not thread-safe: call under the owner's lock.
class AnsweredDecisions {
 public:
  // `decision` is handed to the shard. REQUIRES: in the order of the numbers.
  void Begin(const Decision& decision) {
    if (ends_.empty() || std::holds_alternative<Commit>(decision.what)) {
      ends_.push_back(decision.number);
    } else {
      ends_.back() = decision.number;
    }
  }
  // Decision `number` has been executed: whether it is to be answered. `own`:
  // the answer has what no later one brings, such as a version's digests.
  // REQUIRES: in the order of Begin.
  bool End(int64_t number, bool own) {
    SLUICE_CHECK(!ends_.empty());
    if (ends_.front() != number) return own;
    ends_.pop_front();
    return true;
  }

 private:
  // The last decision of each run under way; a Commit begins a new one.
  std::deque<int64_t> ends_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_DECISIONS_ANSWERED_DECISIONS_H_
