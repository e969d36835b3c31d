#ifndef SLUICE_PS_SERVER_COORDINATOR_REPORT_JOB_STATE_JSON_H_
#define SLUICE_PS_SERVER_COORDINATOR_REPORT_JOB_STATE_JSON_H_

#include <optional>

#include "nlohmann/json.hpp"
#include "ps_server/coordinator/core/job_state.h"

// The parts of a JobState that metrics.jsonl and summary.json both hold.
namespace sluice {

// The `gradients` object.
inline nlohmann::ordered_json GradientCountsJson(const GradientCounts& counts) {
  return {{"applied", counts.applied},
          {"cancelled", counts.cancelled},
          {"dropped", counts.dropped},
          {"rejected", counts.rejected},
          {"lost", counts.lost}};
}

// The `checkpoints` object; null where the job has none.
inline nlohmann::ordered_json CheckpointsJson(
    const std::optional<CheckpointState>& state) {
  if (!state.has_value()) return nullptr;
  nlohmann::ordered_json json = {{"newest_version", nullptr},
                                 {"written", state->written},
                                 {"failed", state->failed},
                                 {"late", state->late},
                                 {"last_error", state->last_error}};
  if (state->newest.has_value()) {
    json["newest_version"] = state->newest->value();
  }
  return json;
}

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_REPORT_JOB_STATE_JSON_H_
