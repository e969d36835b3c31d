// Two exchanges to the same shards: the trainer's rounds floats to the job's
// wire types, as a real worker's would, and the evaluator's does not.
//
// Both are given the snapshots for one call only (Choose before it, Choose({})
// after it). Otherwise an exchange would keep a version's chunks alive between
// tasks, and memory would grow with the number of workers.
#include "sim/local_training.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/initial_weights.h"
#include "common/status_macros.h"
#include "common/wire/job_wire_types.h"
#include "ps_server/shard_options_from_job.h"

namespace sluice {

LocalTraining::LocalTraining(const ResolvedJob& job) : job_(job) {}

absl::StatusOr<std::unique_ptr<LocalTraining>> LocalTraining::Create(
    const ResolvedJob& job, const std::string& weights_path,
    const Splits& splits, const StoredVersion& stored_version) {
  std::unique_ptr<LocalTraining> made(new LocalTraining(job));
  SLUICE_ASSIGN_OR_RETURN(InitialWeights opened, InitialWeights::Open(job));
  const auto initial =
      std::make_shared<const InitialWeights>(std::move(opened));
  std::vector<Shard*> shards;
  for (int s = 0; s < job.layout.shards(); ++s) {
    ShardOptions options = ShardOptionsFromJob(job, ShardId(s), initial);
    options.stored_version = stored_version;
    made->shards_.push_back(std::make_unique<Shard>(std::move(options)));
    shards.push_back(made->shards_.back().get());
  }
  made->exchange_ = std::make_unique<LocalExchange>(
      &made->job_.layout, JobWireTypes(job.job), shards);
  made->observer_ = std::make_unique<LocalExchange>(
      &made->job_.layout, WireTypes(), std::move(shards));
  SLUICE_ASSIGN_OR_RETURN(made->training_context_,
                          MakeTrainingContext(job, WorkerId(0), splits.train));
  made->training_context_.Enter();
  made->trainer_ = std::make_unique<Trainer>(
      TrainerOptionsFromJob(job), made->training_context_.data.get(),
      made->training_context_.model.get(), made->exchange_.get());
  if (!job.job.evaluation().enabled()) return made;
  SLUICE_ASSIGN_OR_RETURN(made->test_context_,
                          MakeTestContext(job, splits.test));
  made->test_context_.Enter();
  made->evaluator_ = std::make_unique<Evaluator>(
      EvaluatorOptionsFromJob(job, weights_path), &made->job_.layout,
      made->test_context_.data.get(), made->test_context_.model.get(),
      made->observer_.get());
  return made;
}

absl::StatusOr<Shard::Executed> LocalTraining::Execute(
    ShardId shard, const Decision& decision) {
  return shards_[shard.value()]->Execute(decision);
}

std::shared_ptr<const WeightStore::Snapshot> LocalTraining::Newest(
    ShardId shard) {
  auto newest = At(shard, shards_[shard.value()]->version());
  SLUICE_CHECK(newest.ok());
  return *std::move(newest);
}

absl::StatusOr<std::shared_ptr<const WeightStore::Snapshot>> LocalTraining::At(
    ShardId shard, Version version) {
  Shard* const from = shards_[shard.value()].get();
  SLUICE_ASSIGN_OR_RETURN(auto read,
                          from->Pull({.generation = from->generation(),
                                      .version = version,
                                      .exact = true}));
  if (!read.has_value()) {
    return absl::NotFoundError(absl::StrCat(
        "shard ", shard.value(), " has no version ", version.value(), " yet"));
  }
  // The snapshot keeps its chunks alive, so the store's read can end here.
  from->EndRead(read->id);
  return std::move(read->snapshot);
}

absl::StatusOr<Trainer::Answer> LocalTraining::Compute(const proto::Task& task,
                                                       Snapshots weights) {
  exchange_->Choose(std::move(weights));
  auto answer = trainer_->Run(task, CancelToken());
  exchange_->Choose({});
  return answer;
}

proto::Evaluated LocalTraining::Evaluate(const proto::Evaluate& request,
                                         Snapshots weights) {
  SLUICE_CHECK(evaluator_ != nullptr);
  observer_->Choose(std::move(weights));
  auto evaluated =
      evaluator_->Run(request, shards_[0]->generation(), CancelToken());
  observer_->Choose({});
  SLUICE_CHECK(evaluated.ok());  // A shard in the same process cannot be lost.
  return *std::move(evaluated);
}

std::vector<float> LocalTraining::Weights() {
  Snapshots snapshots;
  for (int s = 0; s < shards(); ++s) snapshots.push_back(Newest(ShardId(s)));
  std::vector<float> weights(job_.layout.size());
  observer_->Choose(std::move(snapshots));
  const auto pulled =
      observer_->Pull(PullSpec(), absl::MakeSpan(weights), CancelToken());
  SLUICE_CHECK(pulled.ok());
  observer_->Choose({});
  return weights;
}

std::vector<std::vector<float>> LocalTraining::Arrays() {
  std::vector<std::vector<float>> arrays;
  for (const auto& shard : shards_) {
    const Shard::HeldVersion held = shard->Hold();
    arrays.resize(held.arrays.size());
    for (size_t a = 0; a < arrays.size(); ++a) {
      for (int chunk = 0; chunk < shard->grid().count(); ++chunk) {
        const float* floats = held.arrays[a].chunks[chunk].data();
        arrays[a].insert(arrays[a].end(), floats,
                         floats + shard->grid().size(chunk));
      }
    }
  }
  return arrays;
}

}  // namespace sluice
