#ifndef SLUICE_WORKER_PIPELINE_STAGE_GRADIENT_H_
#define SLUICE_WORKER_PIPELINE_STAGE_GRADIENT_H_

#include <functional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/compute/native_gradient.h"
#include "worker/pipeline/stage_model.h"
#include "worker/task/task_gradient.h"

namespace sluice {

// The part of a task's gradient that one stage of a pipeline computes, of the
// stage's own weights. All stages are given the same tasks, and the samples of
// a mini-batch are the same function of its number in each.
//
// Wake may be called from any thread.
//
// Not thread-safe: call from the compute thread.
class StageGradient final : public TaskGradient {
 public:
  struct Options {
    NativeGradient::Options native;
    StageModel::Place place;
    // Makes whoever waits for a neighbour look at the cancel token, from any
    // thread.
    std::function<void()> wake = [] {};
  };
  // `model` is that of `stage`; both and `data` must outlive this.
  StageGradient(Options options, const DataSource* data, StageModel* stage,
                Model* model)
      : options_(std::move(options)),
        stage_(*stage),
        native_(Native(options_), data, model) {}

  absl::Span<float> Weights(int which) override {
    return native_.Weights(which);
  }
  absl::Span<float> Gradient() override { return native_.Gradient(); }
  const SharedMemory* SharedGradient() override {
    return native_.SharedGradient();
  }
  absl::StatusOr<OrRestarted<Model::Result>> Compute(
      const Batches& batches, WeightSource& weights, GradientSink& gradient,
      const CancelToken& cancel, TaskProgress* progress) override {
    stage_.BeginTask();
    for (Neighbour* neighbour :
         {options_.place.before, options_.place.behind}) {
      if (neighbour != nullptr) neighbour->Begin(batches.task);
    }
    return native_.Compute(batches, weights, gradient, cancel, progress);
  }
  void PrepareNext() override { native_.PrepareNext(); }
  void Wake() override { options_.wake(); }

 private:
  static NativeGradient::Options Native(const Options& options) {
    NativeGradient::Options native = options.native;
    native.passes_at_once =
        PassesAtOnce(options.place.stages, options.place.stage);
    return native;
  }

  // Constant after construction.
  const Options options_;
  StageModel& stage_;
  NativeGradient native_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_PIPELINE_STAGE_GRADIENT_H_
