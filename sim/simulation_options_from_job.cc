#include "sim/simulation_options_from_job.h"

#include <algorithm>

#include "common/job/group.h"
#include "common/job/stage_plan.h"
#include "common/status_macros.h"
#include "common/wire/job_wire_types.h"
#include "common/wire/wire_format.h"

namespace sluice {

namespace {

// How many links' worth a worker has for weights and gradients: each member has
// one of its own, and the member with the most weights is done last.
double LinksOf(const ResolvedJob& job) {
  if (StageCount(job.job) == 1) return 1;
  int64_t most = 0;
  for (const ModelStage& stage : StagesOf(job)) {
    most = std::max(most, stage.parameters.size());
  }
  return static_cast<double>(job.layout.size()) / static_cast<double>(most);
}

}  // namespace

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
  SLUICE_ASSIGN_OR_RETURN(options.pipeline, PipelineTime::OfJob(job));
  if (const auto cuts = MemberCuts(job); !cuts.empty()) {
    for (const ShardSlice& slice : job.layout.SlicesCutAt(cuts)) {
      options.base_shards.push_back(static_cast<int>(slice.shard.value()));
    }
    options.coordinator.bases = static_cast<int>(options.base_shards.size());
  }
  SLUICE_ASSIGN_OR_RETURN(options.network,
                          Network::Create(job.job, LinksOf(job)));
  const WireFormat format(job.layout.statistics());
  const WireTypes types = JobWireTypes(job.job);
  for (int s = 0; s < job.layout.shards(); ++s) {
    const ParameterRange range = job.layout.range(ShardId(s));
    options.pull_bytes.push_back(format.Bytes(types.pull, range));
    options.push_bytes.push_back(format.Bytes(types.push, range));
  }
  return options;
}

TaskUse MeanTask(const ClusterSimulation::Options& options) {
  const auto batches =
      static_cast<int>(options.coordinator.job.sync().local_steps());
  return options.pipeline.Task(options.compute.Mean() * batches, batches);
}

}  // namespace sluice
