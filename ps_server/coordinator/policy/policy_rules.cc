// What the three answers lead to. Three workers, each with a task from version
// 0 on; worker 0 takes 2 s for a mini-batch, worker 1 takes 5 s, worker 2 takes
// 8 s. K = 2, and 3 under SYNC. The first two updates, each with whose
// gradients:
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

namespace sluice {

PolicyRules RulesOf(const SyncOptions& options) {
  using Counts = PolicyRules::Counts;
  using After = PolicyRules::AfterDelivery;
  using Unfinished = PolicyRules::Unfinished;
  switch (options.policy) {
    case PolicyKind::kSync:
      return {Counts::kEveryBatchOfTheVersion, After::kGoesOn,
              Unfinished::kCancelled, options.gradients_per_update};
    case PolicyKind::kKSync:
      return {Counts::kOnePerWorker, After::kWaits, Unfinished::kCancelled,
              options.k};
    case PolicyKind::kKBatchSync:
      return {Counts::kAny, After::kGoesOn, Unfinished::kCancelled, options.k};
    case PolicyKind::kAsync:
      return {Counts::kAny, After::kGoesOn, Unfinished::kContinue, 1};
    case PolicyKind::kKAsync:
      return {Counts::kOnePerWorker, After::kWaits, Unfinished::kContinue,
              options.k};
    case PolicyKind::kKBatchAsync:
      return {Counts::kAny, After::kGoesOn, Unfinished::kContinue, options.k};
  }
  return {};
}

std::string PolicyName(PolicyKind policy) {
  switch (policy) {
    case PolicyKind::kSync:
      return "SYNC";
    case PolicyKind::kKSync:
      return "K_SYNC";
    case PolicyKind::kKBatchSync:
      return "K_BATCH_SYNC";
    case PolicyKind::kAsync:
      return "ASYNC";
    case PolicyKind::kKAsync:
      return "K_ASYNC";
    case PolicyKind::kKBatchAsync:
      return "K_BATCH_ASYNC";
  }
  return "unknown";
}

}  // namespace sluice
