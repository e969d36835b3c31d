#ifndef SLUICE_WORKER_PIPELINE_STAGED_MEASURE_H_
#define SLUICE_WORKER_PIPELINE_STAGED_MEASURE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/job/resolved_job.h"
#include "kernels/device.h"
#include "worker/compute/version_measure.h"
#include "worker/data/data_source.h"
#include "worker/model/accelerator/host_array.h"
#include "worker/pipeline/stage_model.h"

namespace sluice {

// Measures a model that is cut into stages in one process, which need not have
// room for the weights of more than the largest stage: each stage's are brought
// when it is its turn (the parts of VersionMeasure), and what passes from it to
// the next is kept meanwhile. Of three stages and samples for two blocks:
//
//   load 0, block 0 | load 1, block 0 | load 2, block 0 | load 0, block 1 | ...
//
// A block has so many samples that what is kept of them is no more than the
// largest stage's weights, or `block_bytes`. The measurement has the bits of
// the whole model's at the same batch size.
//
// Memory: the largest stage's weights, a block's activations at a cut, and of
// all stages the activations of one batch.
//
// Not thread-safe: call from the compute thread.
class StagedMeasure final : public VersionMeasure {
 public:
  // Of the job's test split, which must outlive this, as must `device`. Errors
  // are those of StageModel::Create.
  static absl::StatusOr<std::unique_ptr<StagedMeasure>> Create(
      const ResolvedJob& job, const DataSource* test, kernels::Device* device,
      int64_t block_bytes = 64 << 20);
  ~StagedMeasure() override;

  int parts() const override { return static_cast<int>(stages_.size()); }
  absl::Span<float> Weights(int part) override {
    return absl::MakeSpan(weights_).subspan(0, stages_[part].floats);
  }
  absl::StatusOr<Measurement> Measure(Version version, const Load& load,
                                      const CancelToken& cancel) override;

 private:
  class Shelf;
  struct Stage {
    std::unique_ptr<StageModel> model;
    int64_t floats = 0;  // Of its weights.
  };

  StagedMeasure(int batch_size, bool classification, const DataSource* test);

  // Constant after Create.
  const int batch_size_;
  const bool classification_;
  const DataSource& test_;
  int64_t block_samples_ = 0;  // A multiple of batch_size_.
  std::vector<std::unique_ptr<Shelf>>
      shelves_;  // Behind each stage but the last.
  std::vector<Stage> stages_;

  // Of one stage; written before they are read.
  std::vector<float> weights_;
  std::optional<HostArray> weights_on_device_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_PIPELINE_STAGED_MEASURE_H_
