#ifndef SLUICE_WORKER_TESTING_FAKE_MODEL_H_
#define SLUICE_WORKER_TESTING_FAKE_MODEL_H_

#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "common/parameter_layout.h"
#include "common/status_macros.h"
#include "kernels/reference/reference_device.h"
#include "worker/model/model.h"

// Not thread-safe: call from one thread.
namespace sluice {

// Gradient: everywhere the mean of the inputs, plus the weight at the same
// place. Needs the first half of the weights, and then the second; becomes
// final in two halves, the second one first. Loss: the mean of the inputs.
class FakeDeviceModel final : public DeviceModel {
 public:
  absl::StatusOr<OrRestarted<Result>> ComputeGradient(
      const Batch& batch, WeightSource& weights, GradientSink& gradient,
      const CancelToken& cancel, TaskProgress* progress) override {
    passes.push_back(batch);
    places.insert(&batch);
    const absl::Span<float> values = gradient.values();
    const int64_t size = static_cast<int64_t>(values.size());
    const int64_t half = size / 2;
    SLUICE_ASSIGN_OR_RETURN(const auto first, weights.WaitUntil(half));
    if (IsRestarted(first)) return Restarted{};
    if (on_half != nullptr) on_half();
    SLUICE_ASSIGN_OR_RETURN(const auto all, weights.WaitUntil(size));
    if (IsRestarted(all)) return Restarted{};
    if (on_forward != nullptr) on_forward();
    if (cancel.cancelled()) return absl::AbortedError("cancelled");
    progress->Enter(Stage::kBackward);
    const float mean = Mean(batch);
    for (int64_t i = size - 1; i >= 0; --i) {
      values[i] = mean + weights.values()[i];
      if (i == half) SLUICE_RETURN_IF_ERROR(gradient.FinalFrom(half));
    }
    if (on_backward != nullptr) on_backward();
    if (cancel.cancelled()) return absl::AbortedError("cancelled");
    SLUICE_RETURN_IF_ERROR(gradient.FinalFrom(0));
    return Result{.samples = batch.samples,
                  .loss = mean,
                  .correct = batch.samples / 2,
                  .overflows = overflows};
  }
  absl::StatusOr<Result> Evaluate(const Batch& batch,
                                  absl::Span<const float> weights) override {
    evaluated.push_back(batch.samples);
    if (on_evaluate != nullptr) on_evaluate();
    return Result{.samples = batch.samples,
                  .loss = Mean(batch),
                  .correct = batch.samples / 2};
  }

  // Called when half of the weights are there, in the forward pass and in the
  // middle of the backward pass; and in each call of Evaluate.
  std::function<void()> on_half;
  std::function<void()> on_forward;
  std::function<void()> on_backward;
  std::function<void()> on_evaluate;
  int overflows = 0;               // Of each gradient.
  std::vector<Batch> passes;       // What gradients were computed of.
  std::set<const Batch*> places;   // Where those were.
  std::vector<int64_t> evaluated;  // Samples of each call of Evaluate.

 private:
  static float Mean(const Batch& batch) {
    float sum = 0;
    for (const float input : batch.inputs) sum += input;
    return sum / static_cast<float>(batch.samples);
  }
};

// Four floats; the second may be a running statistic.
inline ParameterLayout LayoutOfFour(bool has_statistic = false) {
  std::vector<TensorSpec> tensors(3);
  tensors[0].shape = tensors[1].shape = {1};
  tensors[2].shape = {2};
  if (has_statistic) tensors[1].moving_average = 0.1;
  return ParameterLayout(std::move(tensors), /*shards=*/1);
}

// A model of a FakeDeviceModel, unless `device` is given on the reference
// device.
class FakeModel {
 public:
  explicit FakeModel(
      const ParameterLayout& layout = LayoutOfFour(),
      std::unique_ptr<kernels::Device> device = kernels::MakeReferenceDevice())
      : device_(std::move(device)) {
    auto model = std::make_unique<FakeDeviceModel>();
    device_model_ = model.get();
    model_ = *Model::On(device_.get(), layout, std::move(model));
  }
  Model* get() const { return model_.get(); }
  FakeDeviceModel* operator->() const { return device_model_; }

 private:
  const std::unique_ptr<kernels::Device> device_;
  FakeDeviceModel* device_model_;
  std::unique_ptr<Model> model_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_TESTING_FAKE_MODEL_H_
