#ifndef SLUICE_WORKER_PIPELINE_SLOT_GRADIENT_H_
#define SLUICE_WORKER_PIPELINE_SLOT_GRADIENT_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "worker/pipeline/neighbour.h"
#include "worker/pipeline/turns.h"
#include "worker/task/task_gradient.h"

namespace sluice {

// A neighbour for which a slot waits while others compute.
class SlotNeighbour final : public Neighbour {
 public:
  SlotNeighbour(Neighbour* neighbour, SlotTurn* turn)
      : neighbour_(*neighbour), turn_(*turn) {}

  void Begin(const GradientKey& task) override { neighbour_.Begin(task); }
  void Send(int64_t pass, absl::Span<const uint8_t> bytes) override {
    // In its turn: that of another slot would find its weights gone from the
    // cache.
    neighbour_.Send(pass, bytes);
  }
  absl::Status Receive(int64_t pass, absl::Span<uint8_t> into,
                       const CancelToken& cancel) override {
    return turn_.Away([&] { return neighbour_.Receive(pass, into, cancel); });
  }

 private:
  Neighbour& neighbour_;
  SlotTurn& turn_;
};

// Weights for which a slot waits while others compute.
class SlotWeights final : public WeightSource {
 public:
  SlotWeights(WeightSource* weights, SlotTurn* turn)
      : weights_(*weights), turn_(*turn) {}

  absl::Span<const float> values() const override { return weights_.values(); }
  absl::StatusOr<OrRestarted<int64_t>> WaitUntil(int64_t end) override {
    if (end <= there_) return there_;
    SLUICE_ASSIGN_OR_RETURN(
        const auto waited, turn_.Away([&] { return weights_.WaitUntil(end); }));
    there_ = IsRestarted(waited) ? 0 : std::get<int64_t>(waited);
    return waited;
  }

 private:
  WeightSource& weights_;
  SlotTurn& turn_;
  int64_t there_ = 0;
};

// Computes in the turns of its slot.
//
// Wake and Abandon may be called from any thread.
//
// Not thread-safe: call from the slot's compute thread.
class SlotGradient final : public TaskGradient {
 public:
  // `turn` must outlive this.
  SlotGradient(std::unique_ptr<TaskGradient> gradient, SlotTurn* turn)
      : gradient_(std::move(gradient)), turn_(*turn) {}

  absl::Span<float> Weights(int which) override {
    return gradient_->Weights(which);
  }
  bool keeps_weights() const override { return gradient_->keeps_weights(); }
  absl::Span<float> Gradient() override { return gradient_->Gradient(); }
  const SharedMemory* SharedGradient() override {
    return gradient_->SharedGradient();
  }
  absl::StatusOr<OrRestarted<Model::Result>> Compute(
      const Batches& batches, WeightSource& weights, GradientSink& gradient,
      const CancelToken& cancel, TaskProgress* progress) override {
    SlotWeights in_turn(&weights, &turn_);
    return turn_.In(cancel, progress, [&] {
      return gradient_->Compute(batches, in_turn, gradient, cancel, progress);
    });
  }
  void PrepareNext() override { gradient_->PrepareNext(); }
  void Wake() override {
    turn_.Wake();
    gradient_->Wake();
  }
  void Abandon() override { gradient_->Abandon(); }
  void LetEnd() override { gradient_->LetEnd(); }
  bool broken() const override { return gradient_->broken(); }

 private:
  const std::unique_ptr<TaskGradient> gradient_;
  SlotTurn& turn_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_PIPELINE_SLOT_GRADIENT_H_
