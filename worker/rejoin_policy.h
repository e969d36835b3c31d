#ifndef SLUICE_WORKER_REJOIN_POLICY_H_
#define SLUICE_WORKER_REJOIN_POLICY_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/coordinator.pb.h"

namespace sluice {

// How one life of a worker or an evaluator ended: the time from a Join to the
// end of that session.
struct LifeEnd {
  std::optional<proto::Finish> finish = {};  // The run is over.
  bool late = false;                         // It was before this life began.
  bool told_to_leave = false;                // By a signal.
  absl::Status worked = {};   // Not OK: why the process gave its work up.
  absl::Status session = {};  // How the session ended, then or before.
  bool delivered = false;     // Something that the coordinator asked for.
  // What it computed with is broken (TaskGradient); the next life has another.
  bool gradient_broken = false;
  // A link to another member of the worker is. The next life waits until all
  // members are linked anew.
  bool link_broken = false;
};

// Of a member behind the first, which has no session of its own: `session` of a
// LifeEnd with that `worked` and `link_broken`. kAborted, as where the
// coordinator has ended the life, unless it was the member itself that could
// not go on.
absl::Status SessionOfMember(const absl::Status& worked, bool link_broken);

// Whether a failed exchange says that a shard is out of reach or has begun
// another generation. That is no fault of the caller: it is to join anew, and
// will be told who the shards are.
bool ShardIsLost(const absl::Status& status);

// Decides whether a process joins again, and so has another life. It does when
// the coordinator has ended this one (its generation is over, or the process
// was taken for dead) or another member is gone, and a few times in a row when
// a shard is at another generation or what it computes with is broken (once, if
// that has never delivered anything); not when a shard could not be reached for
// limits.partition_timeout_s while the session lived. Pure.
//
// Not thread-safe: call from one thread.
class RejoinPolicy {
 public:
  // Of a shard that is at another generation a session hears within one or two;
  // that many in a row without anything delivered are no recovery. A model
  // process that fails as often will fail again.
  static constexpr int kMostFruitless = 5;
  // Of a model process, before the first delivery of all lives: what fails in
  // its first task is mostly an error of the program, which will be there
  // again.
  static constexpr int kMostUnproven = 1;

  bool Rejoins(const LifeEnd& end);
  // Whether one more life that ends with what it computes with broken, and
  // without anything delivered, is followed by none.
  bool last_try() const { return fruitless_ >= most_broken(); }

  // How long to wait before what it computes with is made again: not at all at
  // first, then 1, 2, 4, ... s, so that a program that fails at once does not
  // take the machine's time. REQUIRES: Rejoins has said yes to a life whose
  // gradient is broken.
  absl::Duration pause() const;

 private:
  int most_broken() const { return proven_ ? kMostFruitless : kMostUnproven; }

  int fruitless_ = 0;    // Lives in a row.
  bool proven_ = false;  // Whether any life has delivered something.
};

}  // namespace sluice

#endif  // SLUICE_WORKER_REJOIN_POLICY_H_
