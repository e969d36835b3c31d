#ifndef SLUICE_PS_SERVER_COORDINATOR_GRADIENT_COUNTS_JSON_H_
#define SLUICE_PS_SERVER_COORDINATOR_GRADIENT_COUNTS_JSON_H_

#include "nlohmann/json.hpp"
#include "ps_server/coordinator/job_state.h"

namespace sluice {

// The `gradients` object of metrics.jsonl and summary.json.
inline nlohmann::ordered_json GradientCountsJson(const GradientCounts& counts) {
  return {{"applied", counts.applied},
          {"cancelled", counts.cancelled},
          {"dropped", counts.dropped},
          {"rejected", counts.rejected},
          {"lost", counts.lost}};
}

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_GRADIENT_COUNTS_JSON_H_
