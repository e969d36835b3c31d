#ifndef SLUICE_WORKER_PIPELINE_STAGE_MODEL_H_
#define SLUICE_WORKER_PIPELINE_STAGE_MODEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/job/resolved_job.h"
#include "common/job/stage_plan.h"
#include "kernels/device.h"
#include "worker/model/model.h"
#include "worker/pipeline/device_neighbour.h"
#include "worker/pipeline/neighbour.h"

namespace sluice {

// One stage of a pipeline: the layers of its job (JobOfStage), between the
// neighbours that have the layers before and behind them. The first stage reads
// the inputs, the last one computes the loss.
//
// The order is 1F1B with a flush at each mini-batch's end (Narayanan et al.
// 2019, PipeDream; Huang et al. 2019, GPipe, has the flush): before the
// backward pass of micro-batch i come the forward passes up to
// i + passes_at_once() - 1. Of three stages and four micro-batches:
//
//   stage 0   F0 F1 F2 F3    B0       B1    B2    B3
//   stage 1      F0 F1 F2 B0 F3    B1    B2    B3
//   stage 2         F0 B0    F1 B1    F2 B2 F3 B3
//
// Memory: passes_at_once() times the activations of one pass; with running
// statistics as many copies of the weights' vector.
// With a tied output the embedding's tokens twice in each stage behind the
// first, up to the one that has the output.
//
// Numerics: the bits of the unsplit model at the same micro_batch, since every
// layer computes the same numbers from the same numbers.
//
// Not thread-safe: call from the compute thread.
class StageModel final : public DeviceModel {
 public:
  // Where the stage is; there is a neighbour on each side but at the ends.
  struct Place {
    int stage = 0;
    int stages = 1;
    Neighbour* before = nullptr;  // Outlives the model, as does `behind`.
    Neighbour* behind = nullptr;
    bool trains = true;  // Else it only evaluates, and has memory for that.
  };
  // As DeviceModel::Create of `job`, which is the stage's own.
  static absl::StatusOr<std::unique_ptr<StageModel>> Create(
      const ResolvedJob& job, const Place& place, int max_samples,
      kernels::Device* device);
  ~StageModel() override;

  // A task begins: its first pass is number 0.
  void BeginTask();

  int passes_at_once() const override {
    return place_.trains ? PassesAtOnce(place_.stages, place_.stage) : 1;
  }
  // The forward pass, from the neighbour before to the one behind. Waits for
  // all weights first, so nothing is made anew.
  absl::StatusOr<OrRestarted<int64_t>> Begin(const Batch& batch,
                                             WeightSource& weights,
                                             const CancelToken& cancel,
                                             TaskProgress* progress) override;
  // The backward pass of the batch that was begun first. Only the last stage's
  // result has a loss.
  absl::StatusOr<OrRestarted<Result>> ComputeGradient(
      const Batch& batch, WeightSource& weights, GradientSink& gradient,
      const CancelToken& cancel, TaskProgress* progress) override;
  // Passes the stages from the first to the last, and back.
  absl::StatusOr<double> SumOverTensors(absl::Span<const double> own,
                                        const CancelToken& cancel) override;
  // From the neighbour before to the one behind, the passes counted as a
  // task's. Only the last stage's result has a loss.
  absl::StatusOr<Result> Evaluate(const Batch& batch,
                                  absl::Span<const float> weights) override;

 private:
  struct PassMemory;

  StageModel(const Place& place, kernels::Device* device);
  absl::Status Prepare(const ResolvedJob& job, int max_samples);
  absl::StatusOr<std::unique_ptr<PassMemory>> MakePassMemory(
      const ResolvedJob& job, int max_samples);
  // The pass's input, from the batch or the neighbour.
  absl::StatusOr<const void*> Enter(const Batch& batch,
                                    const CancelToken& cancel,
                                    TaskProgress* progress, PassMemory* memory);
  // At a mini-batch's begin: the tokens that a tied output shares, from the
  // first stage, at the begin of its weights, to the one with that output.
  absl::Status ShareTokens(absl::Span<const float> weights,
                           const CancelToken& cancel);
  // Of each pass: the tied output's part of their gradient, from its stage to
  // the first, where it becomes the begin of `gradient`.
  absl::Status ReturnTokens(GradientSink& gradient, const CancelToken& cancel);
  // The gradient at the pass's output, from the loss or the neighbour.
  absl::StatusOr<const void*> Return(const Batch& batch,
                                     const CancelToken& cancel,
                                     PassMemory* memory, Result* result);

  // Constant after Prepare.
  const Place place_;
  kernels::Device* const device_;
  DeviceNeighbour before_, behind_;  // The place's.
  int64_t input_bytes_ = 0;          // Of one sample.
  int64_t output_bytes_ = 0;
  std::vector<std::unique_ptr<PassMemory>>
      memories_;  // passes_at_once() of them.
  std::unique_ptr<kernels::VectorOp> statistics_;
  int64_t tokens_bytes_ = 0;  // Those that a tied output shares.
  // Of the stages behind the first, which has them in its vectors, up to the
  // one with the tied output.
  std::unique_ptr<kernels::Buffer> tokens_, tokens_gradient_;
  bool tokens_go_on_ = false;  // The tied output is in a stage behind.

  // Passes of the task: begun, and of these come back.
  int64_t begun_ = 0;
  int64_t returned_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_PIPELINE_STAGE_MODEL_H_
