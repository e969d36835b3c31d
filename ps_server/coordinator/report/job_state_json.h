#ifndef SLUICE_PS_SERVER_COORDINATOR_REPORT_JOB_STATE_JSON_H_
#define SLUICE_PS_SERVER_COORDINATOR_REPORT_JOB_STATE_JSON_H_

#include <string>

#include "common/telemetry/counter_json.h"
#include "common/telemetry/logged_values.h"
#include "nlohmann/json.hpp"
#include "ps_server/coordinator/core/counters.h"
#include "ps_server/coordinator/core/job_state.h"

// The parts of a JobState that metrics.jsonl and summary.json both hold.
namespace sluice {

// Sets what users' programs have logged, where they have, as the object `name`.
inline void PutLogged(const std::string& name, const LoggedValues& values,
                      nlohmann::ordered_json* json) {
  if (!values.empty()) (*json)[name] = values;
}

// Sets all counters in `json`, and where the job has checkpoints what else is
// known of them, in the object `checkpoints`.
inline void PutCounts(const JobState& state, nlohmann::ordered_json* json) {
  PutCountersInJson(kRunCounters, state.counters, json);
  if (!state.checkpoints.has_value()) return;
  const CheckpointState& checkpoints = *state.checkpoints;
  nlohmann::ordered_json& object = (*json)["checkpoints"];
  object = {{"newest_version", nullptr},
            {"last_error", checkpoints.last_error}};
  if (checkpoints.newest.has_value()) {
    object["newest_version"] = checkpoints.newest->value();
  }
  PutCountersInJson(kCheckpointCounters, checkpoints.counters, json);
}

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_REPORT_JOB_STATE_JSON_H_
