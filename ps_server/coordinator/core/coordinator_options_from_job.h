#ifndef SLUICE_PS_SERVER_COORDINATOR_CORE_COORDINATOR_OPTIONS_FROM_JOB_H_
#define SLUICE_PS_SERVER_COORDINATOR_CORE_COORDINATOR_OPTIONS_FROM_JOB_H_

#include <cstdint>

#include "common/resolved_job.h"
#include "ps_server/coordinator/core/coordinator_options.h"

namespace sluice {

// What the coordinator needs to know of a valid job, for its first generation.
// Epochs become samples, seconds durations. Pure.
CoordinatorOptions CoordinatorOptionsFromJob(const ResolvedJob& resolved,
                                             uint64_t grant_secret);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_CORE_COORDINATOR_OPTIONS_FROM_JOB_H_
