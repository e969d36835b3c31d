// What the three answers of a policy lead to. Three workers, each with a task
// from version 0 on; worker 0 takes 2 s for a mini-batch, worker 1 takes 5 s,
// worker 2 takes 8 s. K = 2, and 3 under SYNC. The first two updates, each with
// whose gradients:
//
//   SYNC            8 s  {0,1,2}   0 and 1 find no mini-batch of version 0 left
//                  16 s  {0,1,2}
//   K_SYNC          5 s  {0,1}     0 waits from 2 s on; 2 is cancelled at 5 s
//                  10 s  {0,1}
//   K_BATCH_SYNC    4 s  {0,0}     0 starts again at 2 s; 1 and 2 are cancelled
//                   8 s  {0,0}
//   ASYNC           2 s  {0}
//                   4 s  {0}       then 5 s {1}, two versions stale
//   K_ASYNC         5 s  {0,1}     0 waits from 2 s on; 2 goes on
//                   8 s  {0,2}     2 is one version stale
//   K_BATCH_ASYNC   4 s  {0,0}     0 starts again at 2 s; 1 and 2 go on
//                   6 s  {1,0}     1, here since 5 s, is one version stale
#include "ps_server/coordinator/policy/policy_rules.h"

#include "common/status_macros.h"

namespace sluice {

PolicyRules RulesOf(proto::Policy policy) {
  using Counts = PolicyRules::Counts;
  using After = PolicyRules::AfterDelivery;
  using Unfinished = PolicyRules::Unfinished;
  switch (policy) {
    case proto::SYNC:
      return {Counts::kEveryBatchOfTheVersion, After::kGoesOn,
              Unfinished::kCancelled};
    case proto::K_SYNC:
      return {Counts::kOnePerWorker, After::kWaits, Unfinished::kCancelled};
    case proto::K_BATCH_SYNC:
      return {Counts::kAny, After::kGoesOn, Unfinished::kCancelled};
    case proto::K_ASYNC:
      return {Counts::kOnePerWorker, After::kWaits, Unfinished::kContinue};
    case proto::ASYNC:  // K_BATCH_ASYNC with K = 1.
    case proto::K_BATCH_ASYNC:
      return {Counts::kAny, After::kGoesOn, Unfinished::kContinue};
    default:
      SLUICE_CHECK(!"a resolved job has a policy");
  }
}

StalenessRules RulesOf(proto::Staleness::Action action) {
  switch (action) {
    case proto::Staleness::ACTION_UNSPECIFIED:
      return {};
    case proto::Staleness::WAIT:
      return {.waits = true};
    case proto::Staleness::DROP:
      return {.refuses = Outcome::kDropped};
    case proto::Staleness::CANCEL:
      return {.refuses = Outcome::kCancelled, .revokes = true};
    case proto::Staleness::DOWNWEIGHT:
      return {.weighs_less = true};
    default:
      SLUICE_CHECK(!"a valid job has a known action");
  }
}

}  // namespace sluice
