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
