// Between two stages lies a Shelf in place of a neighbour: what stage 0 sends
// for a block's batches, stage 1 takes in the same order once its weights are
// loaded. A stage takes all of the block before the next is loaded: in its turn
// it empties the shelf before it and fills the one behind.
#include "worker/pipeline/staged_measure.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>
#include <utility>

#include "common/job/stage_plan.h"
#include "common/status_macros.h"
#include "worker/compute/measure.h"
#include "worker/model/layer_stack.h"

namespace sluice {
namespace {

// `*batch` but for its inputs, whose memory stays there.
Batch TakeAnswers(Batch* batch) {
  return {.id = batch->id,
          .first = batch->first,
          .samples = batch->samples,
          .inputs = {},
          .labels = std::move(batch->labels),
          .targets = std::move(batch->targets)};
}

}  // namespace

// Keeps what one stage sends until the next one takes it.
class StagedMeasure::Shelf final : public Neighbour {
 public:
  void Begin(const GradientKey&) override {}
  void Send(int64_t pass, absl::Span<const uint8_t> bytes) override {
    kept_.emplace_back(bytes.begin(), bytes.end());
  }
  absl::Status Receive(int64_t pass, absl::Span<uint8_t> into,
                       const CancelToken& cancel) override {
    SLUICE_CHECK(!kept_.empty() && kept_.front().size() == into.size());
    std::memcpy(into.data(), kept_.front().data(), into.size());
    kept_.pop_front();
    return absl::OkStatus();
  }
  // Of an evaluation that was cut short.
  void Clear() { kept_.clear(); }

 private:
  std::deque<std::vector<uint8_t>> kept_;
};

StagedMeasure::StagedMeasure(int batch_size, bool classification,
                             const DataSource* test)
    : batch_size_(batch_size), classification_(classification), test_(*test) {}

StagedMeasure::~StagedMeasure() = default;

absl::StatusOr<std::unique_ptr<StagedMeasure>> StagedMeasure::Create(
    const ResolvedJob& job, const DataSource* test, kernels::Device* device,
    int64_t block_bytes) {
  std::unique_ptr<StagedMeasure> measure(new StagedMeasure(
      job.job.evaluation().batch_size(), job.data.classification, test));
  const int count = static_cast<int>(StagesOf(job).size());
  for (int s = 0; s + 1 < count; ++s) {
    measure->shelves_.push_back(std::make_unique<Shelf>());
  }
  int64_t largest = 0, sample_bytes = 1;
  for (int s = 0; s < count; ++s) {
    const ResolvedJob part = JobOfStage(job, s);
    const StageModel::Place place = {
        .stage = s,
        .stages = count,
        .before = s > 0 ? measure->shelves_[s - 1].get() : nullptr,
        .behind = s + 1 < count ? measure->shelves_[s].get() : nullptr,
        .trains = false};
    Stage& stage = measure->stages_.emplace_back();
    SLUICE_ASSIGN_OR_RETURN(
        stage.model,
        StageModel::Create(part, place, measure->batch_size_, device));
    stage.floats = part.layout.size();
    largest = std::max(largest, stage.floats);
    sample_bytes =
        std::max(sample_bytes, SizeOf(part.model.layers.back().output_shape) *
                                   device->activation_bytes());
  }
  measure->weights_.resize(largest);
  SLUICE_ASSIGN_OR_RETURN(
      measure->weights_on_device_,
      HostArray::Create(device, largest * static_cast<int64_t>(sizeof(float))));
  const int64_t bytes = std::max<int64_t>(
      block_bytes, largest * static_cast<int64_t>(sizeof(float)));
  measure->block_samples_ =
      std::max<int64_t>(1, bytes / sample_bytes / measure->batch_size_) *
      measure->batch_size_;
  return measure;
}

absl::StatusOr<Measurement> StagedMeasure::Measure(Version version,
                                                   const Load& load,
                                                   const CancelToken& cancel) {
  for (const auto& shelf : shelves_) shelf->Clear();
  const int64_t damaged_before = test_.damaged();
  Model::Result total;
  int64_t labels = 0;
  Batch read;                  // By the first stage.
  std::vector<Batch> answers;  // Without inputs, for those behind it.
  std::vector<int64_t> indices;
  for (int64_t block = 0; block < test_.size(); block += block_samples_) {
    const int64_t end = std::min(test_.size(), block + block_samples_);
    answers.clear();
    for (int s = 0; s < parts(); ++s) {
      SLUICE_RETURN_IF_ERROR(load(s));
      const absl::Span<const float> loaded = Weights(s);
      SLUICE_ASSIGN_OR_RETURN(const float* values,
                              weights_on_device_->ToDevice(loaded));
      stages_[s].model->BeginTask();
      for (int64_t at = block; at < end; at += batch_size_) {
        if (cancel.cancelled()) return absl::AbortedError("given up");
        if (s == 0) {
          indices.resize(std::min<int64_t>(batch_size_, end - at));
          std::iota(indices.begin(), indices.end(), at);
          SLUICE_RETURN_IF_ERROR(test_.Gather(indices, &read));
        }
        const Batch& batch =
            s == 0 ? read : answers[(at - block) / batch_size_];
        SLUICE_ASSIGN_OR_RETURN(
            const Model::Result result,
            stages_[s].model->Evaluate(batch, {values, loaded.size()}));
        if (s + 1 == parts()) {
          total.Add(result);
          labels += static_cast<int64_t>(batch.labels.size());
        }
        if (s == 0) answers.push_back(TakeAnswers(&read));
      }
    }
  }
  return MeasurementOf(total, classification_, labels,
                       test_.damaged() - damaged_before);
}

}  // namespace sluice
