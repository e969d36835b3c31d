#ifndef SLUICE_SIM_LOCAL_TRAINING_H_
#define SLUICE_SIM_LOCAL_TRAINING_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/job/resolved_job.h"
#include "ps_server/decisions/events.h"
#include "ps_server/shard/shard.h"
#include "worker/compute/compute_context.h"
#include "worker/trainer.h"

namespace sluice {

// One version of each shard's slice, in shard order.
using Snapshots = std::vector<std::shared_ptr<const WeightStore::Snapshot>>;

// A job's weights and gradients in one process: the production shards, trainer
// and evaluator, without a coordinator. The owner supplies the decisions, and
// says at which versions gradients are computed.
//
// Memory: the weights, one copy of each chunk of every version that is held,
// the optimizer's state, and the staged gradients.
//
// Not thread-safe: call from the thread that called Create, which then has the
// job's numeric mode.
class LocalTraining {
 public:
  // Splits of the job's data that are already open. Create opens those that are
  // null.
  struct Splits {
    std::shared_ptr<const DataSource> train, test;
  };

  // `weights_path`: where the final version is written; empty: nowhere.
  // `stored_version` loads what a Restore of a version above 0 restores. Errors
  // are those of the job's files and device.
  static absl::StatusOr<std::unique_ptr<LocalTraining>> Create(
      const ResolvedJob& job, const std::string& weights_path,
      const Splits& splits = {}, const StoredVersion& stored_version = nullptr);

  ~LocalTraining();

  int shards() const { return static_cast<int>(shards_.size()); }
  const Shard& shard(ShardId id) const { return *shards_[id.value()]; }

  // Errors are those of Shard::Execute.
  absl::StatusOr<Shard::Executed> Execute(ShardId shard,
                                          const Decision& decision);

  // The shard's newest version, held until the last copy of the pointer is
  // gone. REQUIRES: the shard has executed a Restore.
  std::shared_ptr<const WeightStore::Snapshot> Newest(ShardId shard);
  // The newest version or a pinned one, held in the same way. Errors are those
  // of Shard::Pull.
  absl::StatusOr<std::shared_ptr<const WeightStore::Snapshot>> At(
      ShardId shard, Version version);

  // Computes the task's gradient at `weights` and stages it on every shard.
  // Returns a rejection if a shard refuses it. Errors are those of
  // Trainer::Run.
  absl::StatusOr<Trainer::Answer> Compute(const proto::Task& task,
                                          Snapshots weights);
  // The same where each of `weights` is for one of `slices` of the vector.
  absl::StatusOr<Trainer::Answer> Compute(
      const proto::Task& task, Snapshots weights,
      const std::vector<ShardSlice>& slices);

  // Evaluates `weights`, all of one version, on the test split. For the final
  // version it also computes the hash and writes the file. REQUIRES: the job's
  // evaluation is enabled.
  proto::Evaluated Evaluate(const proto::Evaluate& request, Snapshots weights);

  // The flat vector of the newest weights, followed by the optimizer's arrays,
  // in StoredVersion's format.
  std::vector<std::vector<float>> Arrays();

 private:
  class LocalExchange;

  explicit LocalTraining(const ResolvedJob& job);

  const ResolvedJob job_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::unique_ptr<LocalExchange> exchange_;  // Used by the trainer.
  // Used by the evaluator; pulls unrounded floats.
  std::unique_ptr<LocalExchange> observer_;
  ComputeContext training_context_, test_context_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Evaluator> evaluator_;  // Null if the job has no evaluation.
};

}  // namespace sluice

#endif  // SLUICE_SIM_LOCAL_TRAINING_H_
