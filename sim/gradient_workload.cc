// pulled_[w] holds the slices of worker w's task from their Pulled until Ended,
// also after its task has been cancelled in the coordinator but before the
// worker knows. Computing late costs nothing but these references: a gradient
// is computed at the slices of its pull, however many updates have been made
// since.
#include "sim/gradient_workload.h"

#include <utility>
#include <variant>

#include "common/status_macros.h"
#include "ps_server/decisions/event_conversion.h"

namespace sluice {

GradientWorkload::GradientWorkload(LocalTraining* training, int workers)
    : training_(*training), pulled_(workers, Snapshots(training->shards())) {}

void GradientWorkload::Pulled(WorkerId worker, ShardId shard) {
  pulled_[worker.value()][shard.value()] = training_.Newest(shard);
}

void GradientWorkload::Ended(WorkerId worker) {
  for (auto& snapshot : pulled_[worker.value()]) snapshot.reset();
}

absl::StatusOr<Workload::Computed> GradientWorkload::Compute(const Task& task) {
  ++computed_;
  SLUICE_ASSIGN_OR_RETURN(const Trainer::Answer answer,
                          training_.Compute(TaskToProto(task).task(),
                                            pulled_[task.key.worker.value()]));
  if (const auto* rejected = std::get_if<proto::Rejected>(&answer)) {
    return Computed{.samples = 0, .loss = 0, .rejected = rejected->reason()};
  }
  const auto& ready = std::get<proto::Ready>(answer);
  return Computed{
      .samples = ready.samples(), .loss = ready.loss(), .rejected = ""};
}

absl::StatusOr<std::vector<uint64_t>> GradientWorkload::Execute(
    ShardId shard, const Decision& decision) {
  SLUICE_ASSIGN_OR_RETURN(Shard::Executed executed,
                          training_.Execute(shard, decision));
  return std::move(executed.digests);
}

absl::StatusOr<Evaluation> GradientWorkload::Evaluate(
    const SendEvaluate& request) {
  Snapshots weights;
  for (int s = 0; s < training_.shards(); ++s) {
    SLUICE_ASSIGN_OR_RETURN(auto slice,
                            training_.At(ShardId(s), request.version));
    weights.push_back(std::move(slice));
  }
  return EvaluationFromProto(training_.Evaluate(
      EvaluateToProto(request).evaluate(), std::move(weights)));
}

}  // namespace sluice
