#include "ps_server/decisions/events.h"

#include "absl/strings/str_cat.h"

namespace sluice {

std::string Peer::ToString() const {
  switch (role) {
    case Role::kWorker:
      return absl::StrCat("worker ", id);
    case Role::kShard:
      return absl::StrCat("shard ", id);
    case Role::kEvaluator:
      return "evaluator";
  }
  return "unknown peer";
}

}  // namespace sluice
