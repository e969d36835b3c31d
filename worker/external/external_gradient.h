#ifndef SLUICE_WORKER_EXTERNAL_EXTERNAL_GRADIENT_H_
#define SLUICE_WORKER_EXTERNAL_EXTERNAL_GRADIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/job/resolved_job.h"
#include "worker/compute/likely_batches.h"
#include "worker/data/batch_samples.h"
#include "worker/external/model_description.h"
#include "worker/external/model_process.h"
#include "worker/task/task_gradient.h"

namespace sluice {

// What worker `id`'s model process is told of the job. REQUIRES: `job` has a
// model.external.
ModelDescription DescriptionOf(const ResolvedJob& job, WorkerId id);

// The gradient of a task by a model process, in memory that it shares.
//
// Wake and Abandon may be called from any thread.
//
// Not thread-safe: call from the compute thread.
class ExternalGradient final : public TaskGradient {
 public:
  // Starts `command` for worker `id` and waits until it is ready. Errors as
  // ModelProcess::Start. Blocks. REQUIRES: `job` has a model.external;
  // `sampling` is the job's; the calling thread lives as long as the process is
  // to.
  static absl::StatusOr<std::unique_ptr<ExternalGradient>> Start(
      const ResolvedJob& job, const BatchSampling& sampling, WorkerId id,
      std::vector<std::string> command);

  absl::Span<float> Weights(int which) override {
    return process_->weights(which);
  }
  bool keeps_weights() const override { return true; }
  absl::Span<float> Gradient() override { return process_->gradient(); }
  const SharedMemory* SharedGradient() override {
    return &process_->gradient_memory();
  }

  // The process begins when all weights are there. It is told of cancels as
  // ModelProcess::Compute says, whose errors these are.
  absl::StatusOr<OrRestarted<Model::Result>> Compute(
      const Batches& batches, WeightSource& weights, GradientSink& gradient,
      const CancelToken& cancel, TaskProgress* progress) override;
  std::string OwnInput() const override { return process_->own_input(); }
  void Wake() override { process_->Wake(); }
  void Abandon() override { process_->Abandon(); }
  void LetEnd() override { process_->LetEnd(); }
  bool broken() const override { return process_->broken(); }

 private:
  ExternalGradient(const BatchSampling& sampling, int64_t batches_per_round,
                   std::unique_ptr<ModelProcess> process)
      : sampling_(sampling),
        process_(std::move(process)),
        likely_(sampling, batches_per_round) {}

  // `count` mini-batches with their samples.
  ModelProcess::Batches BatchesFrom(BatchId first, int count) const;

  const BatchSampling sampling_;  // Constant after construction.

  const std::unique_ptr<ModelProcess> process_;
  LikelyBatches likely_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXTERNAL_EXTERNAL_GRADIENT_H_
