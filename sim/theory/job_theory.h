#ifndef SLUICE_SIM_THEORY_JOB_THEORY_H_
#define SLUICE_SIM_THEORY_JOB_THEORY_H_

#include <optional>

#include "common/job/resolved_job.h"
#include "sim/theory/theory.h"

namespace sluice {

// Long-run seconds per update of `job`'s cluster by the formula that applies to
// it. Empty if no formula does: compute times that are not constant,
// exponential or shifted exponential, a network, workers of different speed,
// bounds on staleness, local steps, a warm start, a K that changes, shards
// without room for all gradients under way (limits.staged_gradients), or a SYNC
// whose updates do not take one gradient of each worker.
std::optional<UpdateTime> UpdateTimeOf(const ResolvedJob& job);

}  // namespace sluice

#endif  // SLUICE_SIM_THEORY_JOB_THEORY_H_
