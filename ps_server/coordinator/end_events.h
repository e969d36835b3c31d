#ifndef SLUICE_PS_SERVER_COORDINATOR_END_EVENTS_H_
#define SLUICE_PS_SERVER_COORDINATOR_END_EVENTS_H_

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/ids.h"

// Those of events.h with which a generation ends.
namespace sluice {

// The run is over, for everybody. Empty failure: it reached its end.
struct FinishRun {
  std::string failure;
  std::string reason;
};
// This generation is over, and nothing more is decided in it: the run is to go
// back to its newest checkpoint, in the next one.
struct EndGeneration {
  std::string reason;  // "shard 1 died: not heard of for 5s"
  // For the next one's RecoveryOptions.
  Version furthest;
  int fruitless = 0;
  // The newest checkpoint that it wrote, or read whole, by (generation,
  // version); 0, 0: none.
  std::pair<Generation, Version> stored = {};
  bool begun = true;
  std::optional<std::set<WorkerId>> workers = {};
  bool evaluator = true;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_END_EVENTS_H_
