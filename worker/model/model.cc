#include "worker/model/model.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "worker/model/host_array.h"
#include "worker/model/layer.h"
#include "worker/model/loss.h"

namespace sluice {
namespace {

using kernels::Buffer;
using kernels::Device;

int64_t Size(const std::vector<int64_t>& shape) {
  int64_t size = 1;
  for (int64_t dimension : shape) size *= dimension;
  return size;
}

absl::Status CheckNotCancelled(const CancelToken& cancel) {
  return cancel.cancelled() ? absl::AbortedError("the task was cancelled")
                            : absl::OkStatus();
}

// Layers one after the other.
class SequentialModel : public Model {
 public:
  SequentialModel(int max_samples, int64_t input_size, int64_t weights,
                  Device* device)
      : max_samples_(max_samples),
        input_size_(input_size),
        weights_(weights),
        device_(device) {}

  absl::Status Prepare(const ResolvedJob& job);

  absl::StatusOr<Result> ComputeGradient(
      const Batch& batch, absl::Span<const float> weights,
      absl::Span<float> gradient, const CancelToken& cancel,
      const OnGradientReady& on_ready) override;
  absl::StatusOr<Result> Evaluate(const Batch& batch,
                                  absl::Span<const float> weights) override;

 private:
  struct Step {
    std::unique_ptr<Layer> layer;
    std::unique_ptr<Buffer> buffer;  // Of y; nullptr when it works in place.
    float* y = nullptr;
  };

  absl::Status AddStep(std::unique_ptr<Layer> layer, int64_t output_size);
  // Where the step's input is, with the model's input at `x`.
  const float* InputOf(size_t step, const float* x) const {
    return step == 0 ? x : steps_[step - 1].y;
  }
  void CheckArguments(const Batch& batch, size_t weights) const;
  absl::Status Forward(int64_t samples, const float* weights, const float* x,
                       const CancelToken& cancel);
  absl::Status Backward(int64_t samples, const float* weights, const float* x,
                        absl::Span<float> gradient, const CancelToken& cancel,
                        const OnGradientReady& on_ready);

  // Constant after Prepare.
  const int64_t max_samples_;
  const int64_t input_size_;  // Floats of one sample.
  const int64_t weights_;     // Floats of the flat vector.
  Device* const device_;
  std::vector<Step> steps_;
  // The first step with parameters: backward ends there.
  size_t first_with_parameters_ = 0;
  std::unique_ptr<Loss> loss_;

  // Scratch, overwritten by every call before it is read.
  std::unique_ptr<Buffer> gradient_at_output_, gradient_at_input_;
  std::optional<HostArray> inputs_on_device_, weights_on_device_;
  std::optional<HostArray> gradient_on_device_;
};

absl::Status SequentialModel::Prepare(const ResolvedJob& job) {
  device_->EnterThread();
  int64_t largest = 0;
  for (const LayerPlan& plan : job.model.layers) {
    // Flatten gives the numbers, in their order, another shape.
    if (plan.layer.kind_case() == proto::Layer::kFlatten) continue;
    SLUICE_ASSIGN_OR_RETURN(auto layer,
                            MakeLayer(job.model, plan, max_samples_, device_));
    const int64_t size = Size(plan.output_shape);
    largest = std::max(largest, size);
    SLUICE_RETURN_IF_ERROR(AddStep(std::move(layer), size));
  }
  while (steps_[first_with_parameters_].layer->parameters().size() == 0) {
    ++first_with_parameters_;
  }
  SLUICE_ASSIGN_OR_RETURN(
      loss_, MakeLoss(job.job.model().loss(), job.data.classification,
                      Size(job.model.layers.back().output_shape), max_samples_,
                      device_));
  const int64_t bytes = max_samples_ * largest * sizeof(float);
  SLUICE_ASSIGN_OR_RETURN(gradient_at_output_, device_->Allocate(bytes));
  SLUICE_ASSIGN_OR_RETURN(gradient_at_input_, device_->Allocate(bytes));
  const int64_t flat = weights_ * sizeof(float);
  SLUICE_ASSIGN_OR_RETURN(
      inputs_on_device_,
      HostArray::Create(device_, max_samples_ * input_size_ * sizeof(float)));
  SLUICE_ASSIGN_OR_RETURN(weights_on_device_, HostArray::Create(device_, flat));
  SLUICE_ASSIGN_OR_RETURN(gradient_on_device_,
                          HostArray::Create(device_, flat));
  return absl::OkStatus();
}

absl::Status SequentialModel::AddStep(std::unique_ptr<Layer> layer,
                                      int64_t output_size) {
  Step step;
  // Behind a layer with parameters, whose backward does not look at its
  // output, an activation overwrites that output: a pass over memory less.
  if (layer->is_activation() && !steps_.empty() &&
      steps_.back().layer->parameters().size() > 0) {
    step.y = steps_.back().y;
  } else {
    SLUICE_ASSIGN_OR_RETURN(
        step.buffer,
        device_->Allocate(max_samples_ * output_size * sizeof(float)));
    step.y = step.buffer->floats();
  }
  step.layer = std::move(layer);
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

void SequentialModel::CheckArguments(const Batch& batch, size_t weights) const {
  SLUICE_CHECK(batch.samples >= 1 && batch.samples <= max_samples_);
  SLUICE_CHECK(static_cast<int64_t>(batch.inputs.size()) ==
               batch.samples * input_size_);
  SLUICE_CHECK(static_cast<int64_t>(weights) == weights_);
}

absl::Status SequentialModel::Forward(int64_t samples, const float* weights,
                                      const float* x,
                                      const CancelToken& cancel) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(CheckNotCancelled(cancel));
    SLUICE_RETURN_IF_ERROR(
        steps_[i].layer->Forward(samples, weights, InputOf(i, x), steps_[i].y));
  }
  return absl::OkStatus();
}

absl::Status SequentialModel::Backward(int64_t samples, const float* weights,
                                       const float* x,
                                       absl::Span<float> gradient,
                                       const CancelToken& cancel,
                                       const OnGradientReady& on_ready) {
  float* dy = gradient_at_output_->floats();
  float* other = gradient_at_input_->floats();
  float* const device_gradient = gradient_on_device_->Writable(gradient);
  for (size_t i = steps_.size(); i-- > first_with_parameters_;) {
    SLUICE_RETURN_IF_ERROR(CheckNotCancelled(cancel));
    Layer& layer = *steps_[i].layer;
    float* dx = layer.is_activation() ? dy : other;
    if (i == first_with_parameters_) dx = nullptr;
    SLUICE_RETURN_IF_ERROR(layer.Backward(
        samples, weights, InputOf(i, x), steps_[i].y, dy, dx, device_gradient));
    const ParameterRange range = layer.parameters();
    if (range.size() > 0) {
      SLUICE_RETURN_IF_ERROR(
          gradient_on_device_->ToHost(range.begin, range.end, gradient));
      on_ready(range.begin);
    }
    if (dx == other) std::swap(dy, other);
  }
  return absl::OkStatus();
}

absl::StatusOr<Model::Result> SequentialModel::ComputeGradient(
    const Batch& batch, absl::Span<const float> weights,
    absl::Span<float> gradient, const CancelToken& cancel,
    const OnGradientReady& on_ready) {
  CheckArguments(batch, weights.size());
  SLUICE_CHECK(gradient.size() == weights.size());
  device_->EnterThread();
  SLUICE_ASSIGN_OR_RETURN(const float* x,
                          inputs_on_device_->ToDevice<float>(batch.inputs));
  SLUICE_ASSIGN_OR_RETURN(const float* w,
                          weights_on_device_->ToDevice<float>(weights));
  SLUICE_RETURN_IF_ERROR(Forward(batch.samples, w, x, cancel));
  SLUICE_RETURN_IF_ERROR(CheckNotCancelled(cancel));
  SLUICE_ASSIGN_OR_RETURN(
      const kernels::LossResult loss,
      loss_->Run(batch, steps_.back().y, gradient_at_output_->floats()));
  SLUICE_RETURN_IF_ERROR(
      Backward(batch.samples, w, x, gradient, cancel, on_ready));
  SLUICE_RETURN_IF_ERROR(device_->Synchronize());
  return Result{loss.loss, loss.correct};
}

absl::StatusOr<Model::Result> SequentialModel::Evaluate(
    const Batch& batch, absl::Span<const float> weights) {
  CheckArguments(batch, weights.size());
  device_->EnterThread();
  SLUICE_ASSIGN_OR_RETURN(const float* x,
                          inputs_on_device_->ToDevice<float>(batch.inputs));
  SLUICE_ASSIGN_OR_RETURN(const float* w,
                          weights_on_device_->ToDevice<float>(weights));
  SLUICE_RETURN_IF_ERROR(Forward(batch.samples, w, x, CancelToken()));
  SLUICE_ASSIGN_OR_RETURN(const kernels::LossResult loss,
                          loss_->Run(batch, steps_.back().y, nullptr));
  return Result{loss.loss, loss.correct};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> Model::Create(const ResolvedJob& job,
                                                     int max_samples,
                                                     Device* device) {
  auto model = std::make_unique<SequentialModel>(
      max_samples, Size(job.model.input_shape), job.layout.size(), device);
  SLUICE_RETURN_IF_ERROR(model->Prepare(job));
  return model;
}

}  // namespace sluice
