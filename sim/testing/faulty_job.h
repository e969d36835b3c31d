#ifndef SLUICE_SIM_TESTING_FAULTY_JOB_H_
#define SLUICE_SIM_TESTING_FAULTY_JOB_H_

#include "common/job/resolved_job.h"
#include "ps_server/coordinator/core/coordinator_options.h"

namespace sluice {

// The job of `options` for resuming, checkpoints and run files, with the
// optimizer and the weights of ReferenceWeights. It is not valid as a job file.
ResolvedJob FaultyJob(const CoordinatorOptions& options);

}  // namespace sluice

#endif  // SLUICE_SIM_TESTING_FAULTY_JOB_H_
