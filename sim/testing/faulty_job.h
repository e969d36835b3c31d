#ifndef SLUICE_SIM_TESTING_FAULTY_JOB_H_
#define SLUICE_SIM_TESTING_FAULTY_JOB_H_

#include "common/resolved_job.h"
#include "ps_server/coordinator/coordinator_options.h"

namespace sluice {

// A job of which resuming, checkpoints and run files make what `options` say:
// the weights are those of ReferenceWeights. It could not be loaded.
ResolvedJob FaultyJob(const CoordinatorOptions& options);

}  // namespace sluice

#endif  // SLUICE_SIM_TESTING_FAULTY_JOB_H_
