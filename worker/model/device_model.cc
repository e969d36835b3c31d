// Inputs, layers, loss, and back. Nothing of an accelerator shows here but what
// is asked of accelerator/: inputs that are brought to it, layers that may run
// as a recording, and a loss that is scaled in FP16. On the CPU these are the
// array itself, the layers one after the other, and a scale of 1.
#include <optional>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "worker/model/accelerator/host_array.h"
#include "worker/model/accelerator/loss_scale.h"
#include "worker/model/accelerator/recorded_stack.h"
#include "worker/model/layer.h"
#include "worker/model/layer_stack.h"
#include "worker/model/layers.h"
#include "worker/model/model.h"

namespace sluice {
namespace {

using kernels::Device;

// One layer after the other.
class SequentialModel : public DeviceModel {
 public:
  SequentialModel(const ResolvedJob& job, int max_samples, Device* device)
      : max_samples_(max_samples),
        input_size_(SizeOf(job.model.input_shape)),
        weights_(job.layout.size()),
        device_(device) {}

  absl::Status Prepare(const ResolvedJob& job, const ModelOptions& options);

  absl::StatusOr<OrRestarted<Result>> ComputeGradient(
      const Batch& batch, WeightSource& weights, GradientSink& gradient,
      const CancelToken& cancel, TaskProgress* progress) override;
  absl::StatusOr<Result> Evaluate(const Batch& batch,
                                  absl::Span<const float> weights) override;

 private:
  // An embedding reads inputs as they are.
  absl::Status PrepareInput(const ModelPlan& plan);
  void CheckArguments(const Batch& batch, size_t weights) const;
  // Forward and backward, once; the gradient is multiplied by `scale`.
  absl::StatusOr<OrRestarted<Result>> Run(const Batch& batch, float scale,
                                          const void* x, const Pass& pass,
                                          WeightSource& weights,
                                          TaskProgress* progress);
  // What the layers are given of inputs on the device.
  absl::StatusOr<const void*> Enter(int64_t samples, const float* inputs);

  // Constant after Prepare.
  const int64_t max_samples_;
  const int64_t input_size_;  // Floats of one sample.
  const int64_t weights_;     // Floats of the flat vector.
  float first_scale_ = 1;     // Of the loss.
  Device* const device_;
  std::unique_ptr<kernels::InputOp> input_;  // nullptr: layers read inputs.
  std::optional<RecordedStack> layers_;
  std::unique_ptr<Loss> loss_;
  std::unique_ptr<kernels::VectorOp> trained_;  // All but the statistics.

  // Scratch, overwritten by every call before it is read.
  std::optional<HostArray> inputs_on_device_;
  std::unique_ptr<kernels::Buffer> entered_;  // What input_ writes.
};

absl::Status SequentialModel::PrepareInput(const ModelPlan& plan) {
  if (plan.layers[0].layer.has_embedding()) return absl::OkStatus();
  const ImageShape in = ImageShapeOf(plan.input_shape);
  SLUICE_ASSIGN_OR_RETURN(
      input_, device_->Prepare(kernels::InputShape{in.channels, in.pixels},
                               max_samples_));
  if (input_ == nullptr) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(entered_,
                          device_->Allocate(max_samples_ * input_size_ *
                                            device_->activation_bytes()));
  return absl::OkStatus();
}

absl::Status SequentialModel::Prepare(const ResolvedJob& job,
                                      const ModelOptions& options) {
  if (job.model.layers.empty()) {
    return absl::InvalidArgumentError(
        "model.external: only the model process of a worker computes it");
  }
  device_->EnterThread();
  const LayerContext context = {.plan = job.model,
                                .seed = job.job.seed(),
                                .max_samples = max_samples_,
                                .device = device_};
  SLUICE_RETURN_IF_ERROR(PrepareInput(job.model));
  SLUICE_ASSIGN_OR_RETURN(auto layers,
                          LayerStack::Create(context, job.model.layers));
  layers_.emplace(std::move(layers), max_samples_, device_,
                  options.records ? options.clock : nullptr,
                  options.on_refused);
  // (outputs), or (length, outputs).
  const std::vector<int64_t>& output = job.model.layers.back().output_shape;
  SLUICE_ASSIGN_OR_RETURN(
      loss_, MakeLoss(job.job.model().loss(), job.data.classification,
                      SizeOf(output) / output.back(), output.back(),
                      max_samples_, device_));
  first_scale_ = FirstLossScale(job.job.worker(), loss_->mean_places());
  SLUICE_ASSIGN_OR_RETURN(
      inputs_on_device_,
      HostArray::CreateBeside(device_,
                              max_samples_ * input_size_ * sizeof(float)));
  SLUICE_ASSIGN_OR_RETURN(trained_,
                          device_->PrepareVector(job.layout.trained()));
  return absl::OkStatus();
}

void SequentialModel::CheckArguments(const Batch& batch, size_t weights) const {
  SLUICE_CHECK(batch.samples >= 1 && batch.samples <= max_samples_);
  SLUICE_CHECK(static_cast<int64_t>(batch.inputs.size()) ==
               batch.samples * input_size_);
  SLUICE_CHECK(static_cast<int64_t>(weights) == weights_);
}

absl::StatusOr<const void*> SequentialModel::Enter(int64_t samples,
                                                   const float* inputs) {
  if (input_ == nullptr) return inputs;
  SLUICE_RETURN_IF_ERROR(input_->Run(samples, inputs, entered_->data()));
  return entered_->data();
}

absl::StatusOr<OrRestarted<DeviceModel::Result>>
SequentialModel::ComputeGradient(const Batch& batch, WeightSource& weights,
                                 GradientSink& gradient,
                                 const CancelToken& cancel,
                                 TaskProgress* progress) {
  CheckArguments(batch, weights.values().size());
  SLUICE_CHECK(gradient.values().size() == weights.values().size());
  SLUICE_ASSIGN_OR_RETURN(
      const float* inputs,
      inputs_on_device_->ToDevice<float>(batch.inputs, progress));
  SLUICE_ASSIGN_OR_RETURN(const void* x, Enter(batch.samples, inputs));
  Pass pass = {.samples = batch.samples,
               .weights = weights.values().data(),
               .cancel = cancel,
               .batch = batch.id,
               .first = batch.first,
               .gradient = gradient.values().data()};
  return WithLossScale<Result>(first_scale_, trained_.get(), gradient,
                               [&](float scale, GradientSink& into) {
                                 pass.sink = &into;
                                 return Run(batch, scale, x, pass, weights,
                                            progress);
                               });
}

absl::StatusOr<OrRestarted<DeviceModel::Result>> SequentialModel::Run(
    const Batch& batch, float scale, const void* x, const Pass& pass,
    WeightSource& weights, TaskProgress* progress) {
  SLUICE_ASSIGN_OR_RETURN(const auto y, layers_->Forward(pass, x, weights));
  if (IsRestarted(y)) return Restarted{};
  SLUICE_ASSIGN_OR_RETURN(const auto waited, weights.WaitUntil(weights_));
  if (IsRestarted(waited)) return Restarted{};
  SLUICE_ASSIGN_OR_RETURN(
      const kernels::LossResult loss,
      loss_->Run(batch, std::get<const void*>(y), scale, layers_->scratch()));
  progress->Enter(Stage::kBackward);
  SLUICE_RETURN_IF_ERROR(layers_->Backward(pass, x, layers_->scratch()));
  return Result{
      .samples = batch.samples, .loss = loss.loss, .correct = loss.correct};
}

absl::StatusOr<DeviceModel::Result> SequentialModel::Evaluate(
    const Batch& batch, absl::Span<const float> weights) {
  CheckArguments(batch, weights.size());
  SLUICE_ASSIGN_OR_RETURN(const float* inputs,
                          inputs_on_device_->ToDevice<float>(batch.inputs));
  SLUICE_ASSIGN_OR_RETURN(const void* x, Enter(batch.samples, inputs));
  const CancelToken never;
  const Pass pass = {
      .samples = batch.samples, .weights = weights.data(), .cancel = never};
  SLUICE_ASSIGN_OR_RETURN(const void* y, layers_->ForwardAtOnce(pass, x));
  SLUICE_ASSIGN_OR_RETURN(const kernels::LossResult loss,
                          loss_->Run(batch, y, 1, nullptr));
  return Result{
      .samples = batch.samples, .loss = loss.loss, .correct = loss.correct};
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceModel>> DeviceModel::Create(
    const ResolvedJob& job, int max_samples, Device* device,
    const ModelOptions& options) {
  auto model = std::make_unique<SequentialModel>(job, max_samples, device);
  SLUICE_RETURN_IF_ERROR(model->Prepare(job, options));
  return model;
}

}  // namespace sluice
