#ifndef SLUICE_PS_SERVER_COORDINATOR_POLICY_POLICY_RULES_H_
#define SLUICE_PS_SERVER_COORDINATOR_POLICY_POLICY_RULES_H_

#include <optional>

#include "proto/job.pb.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// A synchronisation policy is three answers; one implementation (SyncPolicy)
// is driven by them.
//
//   policy         who counts        after delivering    the unfinished
//   SYNC           the P of v        goes on             (there are none)
//   K_SYNC         one per worker    waits               are cancelled
//   K_BATCH_SYNC   any               goes on             are cancelled
//   ASYNC          any, K = 1        goes on             continue
//   K_ASYNC        one per worker    waits               continue
//   K_BATCH_ASYNC  any               goes on             continue
//
// How stale a gradient may be is the job's `staleness` (StalenessRules), under
// any policy that lets gradients become stale.
struct PolicyRules {
  // Which gradients count towards the next update.
  enum class Counts {
    kEveryBatchOfTheVersion,  // A fixed set of mini-batches: v*P to v*P+P-1.
    kOnePerWorker,            // The first K workers to deliver.
    kAny,                     // The first K gradients, whoever delivers.
  };
  // What a worker does once it has delivered.
  enum class AfterDelivery {
    kWaits,   // Until its gradient has a verdict.
    kGoesOn,  // Takes another mini-batch at the version decided by then.
  };
  // What happens to running tasks when the update commits.
  enum class Unfinished {
    kCancelled,  // Everybody starts at v+1.
    kContinue,   // And become stale.
  };

  Counts counts = Counts::kAny;
  AfterDelivery after_delivery = AfterDelivery::kGoesOn;
  Unfinished unfinished = Unfinished::kContinue;

  // Gradients are computed at exactly the version the update starts from.
  bool synchronous() const { return unfinished == Unfinished::kCancelled; }
};

// REQUIRES: `policy` is one of the six.
PolicyRules RulesOf(proto::Policy policy);

// What the bound on staleness leads to, of which an action is some:
//
//   action        waits   refuses     revokes   weighs less
//   WAIT          x
//   DROP                  dropped
//   CANCEL                cancelled   x
//   DOWNWEIGHT                                  x
//
// SyncPolicy carries out the first three, GradientWeights the last.
struct StalenessRules {
  // A worker further ahead of the slowest gets no task.
  bool waits = false;
  // How a delivered gradient ends that is staler.
  std::optional<Outcome> refuses = std::nullopt;
  // A running task that would be staler is cancelled.
  bool revokes = false;
  // A gradient that is staler counts less.
  bool weighs_less = false;
};

// None of them where no action is set.
StalenessRules RulesOf(proto::Staleness::Action action);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_POLICY_POLICY_RULES_H_
