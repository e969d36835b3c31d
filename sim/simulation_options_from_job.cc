#include "sim/simulation_options_from_job.h"

#include "common/status_macros.h"
#include "ps_server/coordinator/coordinator_options_from_job.h"

namespace sluice {

absl::StatusOr<ClusterSimulation::Options> SimulationOptionsFromJob(
    const ResolvedJob& job) {
  ClusterSimulation::Options options;
  // Nobody to keep a secret from.
  options.coordinator = CoordinatorOptionsFromJob(job, /*grant_secret=*/0);
  options.coordinator.checkpoints = {};  // Nothing is lost here.
  SLUICE_ASSIGN_OR_RETURN(options.compute, ComputeDelay::Create(job.job));
  if (options.compute.model().always_zero()) {
    return absl::InvalidArgumentError(
        "delays.compute: must be set, and not always 0, for a simulation");
  }
  SLUICE_ASSIGN_OR_RETURN(options.network, Network::Create(job.job));
  for (int s = 0; s < job.layout.shards(); ++s) {
    options.slice_bytes.push_back(job.layout.range(ShardId(s)).size() *
                                  static_cast<int64_t>(sizeof(float)));
  }
  return options;
}

}  // namespace sluice
