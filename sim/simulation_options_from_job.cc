#include "sim/simulation_options_from_job.h"

#include "absl/strings/str_cat.h"
#include "common/stage_plan.h"
#include "common/status_macros.h"
#include "common/wire/job_wire_types.h"
#include "common/wire/wire_format.h"

namespace sluice {

absl::StatusOr<ClusterSimulation::Options> SimulationOptionsFromJob(
    const ResolvedJob& job) {
  ClusterSimulation::Options options;
  options.coordinator.job = job.job;
  options.coordinator.train_samples = job.data.train_samples;
  // No process dies here, so no checkpoint is needed.
  options.coordinator.job.clear_checkpoint();
  SLUICE_ASSIGN_OR_RETURN(options.compute, ComputeDelay::Create(job.job));
  if (options.compute.model().always_zero()) {
    return absl::InvalidArgumentError(
        "delays.compute: must be set, and not always 0, for a simulation");
  }
  if (MembersOf(job.job) > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker.group.pipeline_stages: must be 1 for a simulation, is ",
        MembersOf(job.job),
        ": delays.compute is the time of a whole worker (--set "
        "worker.group={} takes it for one process)"));
  }
  SLUICE_ASSIGN_OR_RETURN(options.network, Network::Create(job.job));
  const WireFormat format(job.layout.statistics());
  const WireTypes types = JobWireTypes(job.job);
  for (int s = 0; s < job.layout.shards(); ++s) {
    const ParameterRange range = job.layout.range(ShardId(s));
    options.pull_bytes.push_back(format.Bytes(types.pull, range));
    options.push_bytes.push_back(format.Bytes(types.push, range));
  }
  return options;
}

}  // namespace sluice
