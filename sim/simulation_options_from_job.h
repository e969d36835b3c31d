#ifndef SLUICE_SIM_SIMULATION_OPTIONS_FROM_JOB_H_
#define SLUICE_SIM_SIMULATION_OPTIONS_FROM_JOB_H_

#include "absl/status/statusor.h"
#include "common/job/resolved_job.h"
#include "sim/cluster_simulation.h"
#include "sim/theory/pipeline_time.h"

namespace sluice {

// The job's cluster in virtual time, without a workload. kInvalidArgument: the
// job has no delays.compute, or one that is always 0, so that virtual time
// would not pass. Also errors of its delay models.
absl::StatusOr<ClusterSimulation::Options> SimulationOptionsFromJob(
    const ResolvedJob& job);

// A task whose mini-batches each take what they take on average.
TaskUse MeanTask(const ClusterSimulation::Options& options);

}  // namespace sluice

#endif  // SLUICE_SIM_SIMULATION_OPTIONS_FROM_JOB_H_
