// Two exchanges to the same shards: the trainer's rounds floats to the job's
// wire types, as a real worker's would, and the evaluator's does not.
//
// Both are given the snapshots for one call only (Choose before it, Choose({})
// after it). Otherwise an exchange would keep a version's chunks alive between
// tasks, and memory would grow with the number of workers.
#include "sim/local_training.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "common/job/initial_weights.h"
#include "common/job/job_counts.h"
#include "common/parameter_layout.h"
#include "common/status_macros.h"
#include "common/wire/job_wire_types.h"
#include "common/wire/payload.h"
#include "common/wire/wire_format.h"
#include "ps_server/shard/shard.h"
#include "ps_server/shard_options_from_job.h"
#include "worker/exchange/exchange.h"

namespace sluice {

// The exchange with shards in the same process. A pull copies the snapshots
// that were chosen for it, a push stages in the shards. Nothing blocks.
//
// Stands in for the network between one trainer and the shards, bit by bit:
// pulled floats are rounded to the wire type (Travel), and pushed floats are
// encoded with their checksum and decoded by the shard. So a job with BF16
// gradients gives the same weights here as on a real cluster.
//
// Not thread-safe: call from the compute thread.
class LocalTraining::LocalExchange final : public Exchange {
 public:
  // The shards have the ranges of `layout`, in order; both must outlive this.
  // Floats are rounded as if they were sent with `types`.
  LocalExchange(const ParameterLayout* layout, WireTypes types,
                std::vector<Shard*> shards);

  // Sets what the next pulls copy, each for one of `slices`. Holds the
  // snapshots until the next Choose.
  void Choose(Snapshots snapshots, const std::vector<ShardSlice>& slices) {
    snapshots_ = std::move(snapshots);
    slices_ = slices;
  }
  void Choose(Snapshots snapshots) {
    Choose(std::move(snapshots), layout_.slices());
  }

  void BeginPull(const PullSpec& spec, absl::Span<float> weights) override;
  // kInternal: the chosen snapshots are not the version that the pull asks for.
  absl::StatusOr<OrRestarted<int64_t>> AwaitPulled(
      int64_t end, const CancelToken& cancel) override;
  absl::StatusOr<std::vector<Version>> FinishPull(
      const CancelToken& cancel) override;
  void AbortPull() override {}
  void Prefetch(const PullSpec& spec, absl::Span<float> weights) override {}
  void AbortPrefetch() override {}
  void BeginPush(const GradientKey& key, const std::string& grant,
                 absl::Span<const float> gradient) override;
  void PushFrom(int64_t from) override {}
  // Errors as Shard::Stage's.
  absl::Status FinishPush(const CancelToken& cancel) override;
  void AbortPush() override {}
  void Wake() override {}

 private:
  absl::StatusOr<Version> PullSlice(size_t slice);
  absl::Status Stage(int shard);

  // Constant after construction.
  const ParameterLayout& layout_;
  const WireFormat format_;
  const WireTypes types_;
  const std::vector<Shard*> shards_;

  Snapshots snapshots_;
  std::vector<ShardSlice> slices_;
  PullSpec spec_;
  absl::Span<float> weights_;
  std::vector<Version> pulled_;  // Empty: not pulled yet.
  GradientKey key_;
  std::string grant_;
  absl::Span<const float> gradient_;
};

LocalTraining::LocalExchange::LocalExchange(const ParameterLayout* layout,
                                            WireTypes types,
                                            std::vector<Shard*> shards)
    : layout_(*layout),
      format_(layout->statistics()),
      types_(types),
      shards_(std::move(shards)) {
  SLUICE_CHECK(static_cast<int>(shards_.size()) == layout_.shards());
}

void LocalTraining::LocalExchange::BeginPull(const PullSpec& spec,
                                             absl::Span<float> weights) {
  spec_ = spec;
  weights_ = weights;
  pulled_.clear();
}

absl::StatusOr<OrRestarted<int64_t>> LocalTraining::LocalExchange::AwaitPulled(
    int64_t, const CancelToken&) {
  SLUICE_CHECK(snapshots_.size() == slices_.size());
  for (size_t i = 0; i < slices_.size(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const Version version, PullSlice(i));
    pulled_.push_back(version);
  }
  return layout_.size();
}

absl::StatusOr<std::vector<Version>> LocalTraining::LocalExchange::FinishPull(
    const CancelToken& cancel) {
  if (pulled_.empty()) {
    SLUICE_RETURN_IF_ERROR(AwaitPulled(layout_.size(), cancel).status());
  }
  return pulled_;
}

absl::StatusOr<Version> LocalTraining::LocalExchange::PullSlice(size_t slice) {
  const WeightStore::Snapshot& snapshot = *snapshots_[slice];
  const auto& [shard, range, offset] = slices_[slice];
  const Version version = snapshot.version;
  if (spec_.exact ? version != spec_.version : version < spec_.version) {
    return absl::InternalError(
        absl::StrCat("shard ", shard.value(), ": version ", version.value(),
                     " was chosen, ", spec_.version.value(), " is asked for"));
  }
  const ChunkGrid& grid = shards_[shard.value()]->grid();
  const auto into = weights_.subspan(range.begin, range.size());
  for (int chunk = 0; chunk < grid.count(); ++chunk) {
    const int64_t begin = std::max(grid.begin(chunk), offset);
    const int64_t end =
        std::min(grid.begin(chunk) + grid.size(chunk), offset + range.size());
    if (begin >= end) continue;
    std::copy_n(snapshot.chunks[chunk].data() + (begin - grid.begin(chunk)),
                end - begin, into.begin() + (begin - offset));
  }
  format_.Travel(types_.pull, range, into);
  return version;
}

void LocalTraining::LocalExchange::BeginPush(const GradientKey& key,
                                             const std::string& grant,
                                             absl::Span<const float> gradient) {
  key_ = key;
  grant_ = grant;
  gradient_ = gradient;
}

absl::Status LocalTraining::LocalExchange::FinishPush(const CancelToken&) {
  for (size_t s = 0; s < shards_.size(); ++s) {
    SLUICE_RETURN_IF_ERROR(Stage(static_cast<int>(s)));
  }
  return absl::OkStatus();
}

absl::Status LocalTraining::LocalExchange::Stage(int shard) {
  const int64_t begin = layout_.range(ShardId(shard)).begin;
  const ChunkGrid& grid = shards_[shard]->staging().grid();
  std::vector<uint8_t> data;
  for (int chunk = 0; chunk < grid.count(); ++chunk) {
    const int64_t at = begin + grid.begin(chunk);
    const ParameterRange range = {at, at + grid.size(chunk)};
    data.resize(format_.Bytes(types_.push, range));
    const uint64_t checksum = format_.Encode(
        types_.push, range, gradient_.subspan(at, range.size()), data.data());
    SLUICE_RETURN_IF_ERROR(shards_[shard]
                               ->Stage({.key = key_,
                                        .grant = grant_,
                                        .offset = grid.begin(chunk),
                                        .type = types_.push},
                                       Payload({data}, checksum))
                               .status());
  }
  return absl::OkStatus();
}

LocalTraining::LocalTraining(const ResolvedJob& job) : job_(job) {}

LocalTraining::~LocalTraining() = default;

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
    // A replay stages all of an update, also where its shards folded it.
    options.staged_gradients = std::max(options.staged_gradients,
                                        MostGradientsPerUpdate(job.job.sync()));
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
      Trainer::Options(), made->training_context_.gradient.get(),
      made->exchange_.get());
  if (!job.job.evaluation().enabled()) return made;
  SLUICE_ASSIGN_OR_RETURN(made->test_context_,
                          MakeTestContext(job, splits.test));
  made->test_context_.Enter();
  made->evaluator_ = std::make_unique<Evaluator>(
      EvaluatorOptionsFromJob(job, weights_path), &made->job_.layout,
      made->test_context_.measure.get(),
      std::vector<Exchange*>{made->observer_.get()});
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
  return Compute(task, std::move(weights), job_.layout.slices());
}

absl::StatusOr<Trainer::Answer> LocalTraining::Compute(
    const proto::Task& task, Snapshots weights,
    const std::vector<ShardSlice>& slices) {
  exchange_->Choose(std::move(weights), slices);
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
