#ifndef SLUICE_PS_SERVER_COORDINATOR_REPORT_STATUS_JSON_H_
#define SLUICE_PS_SERVER_COORDINATOR_REPORT_STATUS_JSON_H_

#include <string>

#include "nlohmann/json.hpp"
#include "proto/coordinator.pb.h"

namespace sluice {

// How a run stands as one JSON object, with the names of proto::JobStatus and
// of the counters. A value that is not known yet is null. `sluice status
// --json` prints it, and a lead's /api/state holds it.
nlohmann::ordered_json StatusAsJson(const proto::JobStatus& status);

// The same over several lines, for a person to read.
std::string StatusJson(const proto::JobStatus& status);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_REPORT_STATUS_JSON_H_
