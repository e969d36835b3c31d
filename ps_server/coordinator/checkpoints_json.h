#ifndef SLUICE_PS_SERVER_COORDINATOR_CHECKPOINTS_JSON_H_
#define SLUICE_PS_SERVER_COORDINATOR_CHECKPOINTS_JSON_H_

#include <optional>

#include "nlohmann/json.hpp"
#include "ps_server/coordinator/job_state.h"

namespace sluice {

// The `checkpoints` object of metrics.jsonl and summary.json; null where the
// job has none.
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

#endif  // SLUICE_PS_SERVER_COORDINATOR_CHECKPOINTS_JSON_H_
