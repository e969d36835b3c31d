// A PassMemory is what one pass needs between its forward and its backward:
// layers of its own with their activations, what came in and what came back.
// Pass i has memory i modulo their number, which is free again when pass i -
// passes_at_once() has come back, and that is just before pass i begins.
//
// Running statistics are written by forward into the pass's gradient. The sum
// that a gradient is part of is known in backward only, so a memory with
// statistics has a vector for them, from which backward takes them over.
#include "worker/pipeline/stage_model.h"

#include <optional>

#include "common/status_macros.h"
#include "worker/model/accelerator/host_array.h"
#include "worker/model/layer_stack.h"
#include "worker/model/layers.h"

namespace sluice {
namespace {

// In place of a pass's number: a sum over all tensors; tokens, or their
// gradient.
constexpr int64_t kSum = -1;
constexpr int64_t kTokens = -2;

}  // namespace

struct StageModel::PassMemory {
  std::unique_ptr<LayerStack> layers;
  // First stage:
  std::optional<HostArray> batch;
  std::unique_ptr<kernels::InputOp> input;  // May be nullptr.
  // Each:
  std::unique_ptr<kernels::Buffer> x;           // What input or `before` makes.
  std::unique_ptr<kernels::Buffer> dy;          // What `behind` returns.
  std::unique_ptr<Loss> loss;                   // Last stage.
  std::unique_ptr<kernels::Buffer> statistics;  // Where there are such.

  const void* in = nullptr;  // Of the pass: x, or the batch's own.
};

StageModel::StageModel(const Place& place, kernels::Device* device)
    : place_(place),
      device_(device),
      before_(place.before, device),
      behind_(place.behind, device) {}

StageModel::~StageModel() = default;

absl::StatusOr<std::unique_ptr<StageModel>> StageModel::Create(
    const ResolvedJob& job, const Place& place, int max_samples,
    kernels::Device* device) {
  SLUICE_CHECK((place.before == nullptr) == (place.stage == 0));
  SLUICE_CHECK((place.behind == nullptr) == (place.stage + 1 == place.stages));
  std::unique_ptr<StageModel> model(new StageModel(place, device));
  SLUICE_RETURN_IF_ERROR(model->Prepare(job, max_samples));
  return model;
}

absl::Status StageModel::Prepare(const ResolvedJob& job, int max_samples) {
  device_->EnterThread();
  const std::vector<LayerPlan>& layers = job.model.layers;
  input_bytes_ = SizeOf(job.model.input_shape) * device_->activation_bytes();
  output_bytes_ =
      SizeOf(layers.back().output_shape) * device_->activation_bytes();
  SLUICE_ASSIGN_OR_RETURN(statistics_,
                          device_->PrepareVector(job.layout.statistics()));
  // The embedding is the model's first layer, and its tokens come first.
  tokens_bytes_ =
      job.model.tensors[0].size * static_cast<int64_t>(sizeof(float));
  tokens_go_on_ = job.model.tied_output && !HaveTiedOutput(layers);
  if (job.model.tied_output && before_.there()) {
    SLUICE_ASSIGN_OR_RETURN(tokens_, device_->Allocate(tokens_bytes_));
    SLUICE_ASSIGN_OR_RETURN(tokens_gradient_, device_->Allocate(tokens_bytes_));
  }
  for (int i = 0; i < passes_at_once(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(memories_.emplace_back(),
                            MakePassMemory(job, max_samples));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StageModel::PassMemory>>
StageModel::MakePassMemory(const ResolvedJob& job, int max_samples) {
  const LayerContext context = {.plan = job.model,
                                .seed = job.job.seed(),
                                .max_samples = max_samples,
                                .device = device_};
  auto memory = std::make_unique<PassMemory>();
  SLUICE_ASSIGN_OR_RETURN(memory->layers,
                          LayerStack::Create(context, job.model.layers));
  if (before_.there()) {
    SLUICE_ASSIGN_OR_RETURN(memory->x,
                            device_->Allocate(max_samples * input_bytes_));
  } else {
    SLUICE_ASSIGN_OR_RETURN(
        memory->batch,
        HostArray::Create(device_, max_samples * SizeOf(job.model.input_shape) *
                                       sizeof(float)));
  }
  if (!before_.there() && !job.model.layers[0].layer.has_embedding()) {
    const ImageShape in = ImageShapeOf(job.model.input_shape);
    SLUICE_ASSIGN_OR_RETURN(
        memory->input,
        device_->Prepare(kernels::InputShape{in.channels, in.pixels},
                         max_samples));
    if (memory->input != nullptr) {
      SLUICE_ASSIGN_OR_RETURN(memory->x,
                              device_->Allocate(max_samples * input_bytes_));
    }
  }
  if (behind_.there()) {
    SLUICE_ASSIGN_OR_RETURN(memory->dy,
                            device_->Allocate(max_samples * output_bytes_));
  } else {
    const std::vector<int64_t>& output = job.model.layers.back().output_shape;
    SLUICE_ASSIGN_OR_RETURN(
        memory->loss, MakeLoss(job.job.model().loss(), job.data.classification,
                               SizeOf(output) / output.back(), output.back(),
                               max_samples, device_));
  }
  if (!job.layout.statistics().empty()) {
    SLUICE_ASSIGN_OR_RETURN(
        memory->statistics,
        device_->Allocate(job.layout.size() *
                          static_cast<int64_t>(sizeof(float))));
  }
  return memory;
}

void StageModel::BeginTask() { begun_ = returned_ = 0; }

absl::Status StageModel::ShareTokens(absl::Span<const float> weights,
                                     const CancelToken& cancel) {
  const void* tokens = weights.data();
  if (tokens_ != nullptr) {
    tokens = tokens_->data();
    SLUICE_RETURN_IF_ERROR(
        before_.Receive(kTokens, tokens_->data(), tokens_bytes_, cancel));
  }
  if (!tokens_go_on_) return absl::OkStatus();
  return behind_.Send(kTokens, tokens, tokens_bytes_);
}

absl::Status StageModel::ReturnTokens(GradientSink& gradient,
                                      const CancelToken& cancel) {
  void* const here = tokens_gradient_ == nullptr
                         ? static_cast<void*>(gradient.values().data())
                         : tokens_gradient_->data();
  if (tokens_go_on_) {
    SLUICE_RETURN_IF_ERROR(
        behind_.Receive(kTokens, here, tokens_bytes_, cancel));
  }
  if (tokens_gradient_ == nullptr) return absl::OkStatus();
  return before_.Send(kTokens, here, tokens_bytes_);
}

absl::StatusOr<const void*> StageModel::Enter(const Batch& batch,
                                              const CancelToken& cancel,
                                              TaskProgress* progress,
                                              PassMemory* memory) {
  if (before_.there()) {
    SLUICE_RETURN_IF_ERROR(before_.Receive(
        begun_, memory->x->data(), batch.samples * input_bytes_, cancel));
    return memory->x->data();
  }
  SLUICE_ASSIGN_OR_RETURN(const float* inputs, memory->batch->ToDevice<float>(
                                                   batch.inputs, progress));
  if (memory->input == nullptr) return inputs;
  SLUICE_RETURN_IF_ERROR(
      memory->input->Run(batch.samples, inputs, memory->x->data()));
  return memory->x->data();
}

absl::StatusOr<OrRestarted<int64_t>> StageModel::Begin(
    const Batch& batch, WeightSource& weights, const CancelToken& cancel,
    TaskProgress* progress) {
  const auto all = static_cast<int64_t>(weights.values().size());
  while (true) {
    SLUICE_ASSIGN_OR_RETURN(const auto waited, weights.WaitUntil(all));
    if (!IsRestarted(waited)) break;  // Nothing was computed from them.
  }
  if (before_.there()) progress->Enter(Stage::kWait);
  if (batch.first == 0) {
    SLUICE_RETURN_IF_ERROR(ShareTokens(weights.values(), cancel));
  }
  PassMemory& memory = *memories_[begun_ % memories_.size()];
  SLUICE_ASSIGN_OR_RETURN(memory.in, Enter(batch, cancel, progress, &memory));
  progress->Enter(Stage::kForward);
  const Pass pass = {
      .samples = batch.samples,
      .weights = weights.values().data(),
      .cancel = cancel,
      .batch = batch.id,
      .first = batch.first,
      .tokens = tokens_ ? tokens_->floats() : nullptr,
      .gradient = memory.statistics ? memory.statistics->floats() : nullptr};
  SLUICE_RETURN_IF_ERROR(memory.layers->BeginPass(pass));
  SLUICE_RETURN_IF_ERROR(memory.layers->Forward(pass, memory.in));
  if (behind_.there()) {
    SLUICE_RETURN_IF_ERROR(behind_.Send(begun_,
                                        memory.layers->Output(memory.in),
                                        batch.samples * output_bytes_));
  }
  ++begun_;
  return all;
}

absl::StatusOr<const void*> StageModel::Return(const Batch& batch,
                                               const CancelToken& cancel,
                                               PassMemory* memory,
                                               Result* result) {
  if (behind_.there()) {
    SLUICE_RETURN_IF_ERROR(behind_.Receive(
        returned_, memory->dy->data(), batch.samples * output_bytes_, cancel));
    return memory->dy->data();
  }
  SLUICE_ASSIGN_OR_RETURN(
      const kernels::LossResult loss,
      memory->loss->Run(batch, memory->layers->Output(memory->in), /*scale=*/1,
                        memory->layers->scratch()));
  result->loss = loss.loss;
  result->correct = loss.correct;
  return memory->layers->scratch();
}

absl::StatusOr<OrRestarted<DeviceModel::Result>> StageModel::ComputeGradient(
    const Batch& batch, WeightSource& weights, GradientSink& gradient,
    const CancelToken& cancel, TaskProgress* progress) {
  SLUICE_CHECK(returned_ < begun_);
  PassMemory& memory = *memories_[returned_ % memories_.size()];
  Result result = {.samples = batch.samples};
  if (behind_.there()) progress->Enter(Stage::kWait);
  SLUICE_ASSIGN_OR_RETURN(const void* dy,
                          Return(batch, cancel, &memory, &result));
  progress->Enter(Stage::kBackward);
  if (memory.statistics != nullptr) {
    const auto floats = static_cast<int64_t>(gradient.values().size());
    SLUICE_RETURN_IF_ERROR(statistics_->Scale(
        {0, floats}, 1, memory.statistics->floats(), gradient.values().data()));
  }
  const Pass pass = {.samples = batch.samples,
                     .weights = weights.values().data(),
                     .cancel = cancel,
                     .batch = batch.id,
                     .first = batch.first,
                     .tokens = tokens_ ? tokens_->floats() : nullptr,
                     .tokens_gradient = tokens_gradient_
                                            ? tokens_gradient_->floats()
                                            : nullptr,
                     .gradient = gradient.values().data(),
                     .sink = &gradient};
  if (!before_.there()) {  // The embedding adds to what is there.
    SLUICE_RETURN_IF_ERROR(ReturnTokens(gradient, cancel));
  }
  SLUICE_ASSIGN_OR_RETURN(
      const void* dx, memory.layers->Backward(pass, memory.in, dy,
                                              /*wants_dx=*/before_.there()));
  if (before_.there()) {
    SLUICE_RETURN_IF_ERROR(
        before_.Send(returned_, dx, batch.samples * input_bytes_));
    SLUICE_RETURN_IF_ERROR(ReturnTokens(gradient, cancel));
  }
  ++returned_;
  return result;
}

absl::StatusOr<double> StageModel::SumOverTensors(absl::Span<const double> own,
                                                  const CancelToken& cancel) {
  double sum = 0;
  if (before_.there()) {
    SLUICE_RETURN_IF_ERROR(before_.ReceiveNumber(kSum, &sum, cancel));
  }
  for (const double term : own) sum += term;
  if (behind_.there()) {
    behind_.SendNumber(kSum, sum);
    SLUICE_RETURN_IF_ERROR(behind_.ReceiveNumber(kSum, &sum, cancel));
  }
  if (before_.there()) before_.SendNumber(kSum, sum);
  return sum;
}

absl::StatusOr<DeviceModel::Result> StageModel::Evaluate(
    const Batch& batch, absl::Span<const float> weights) {
  const CancelToken never;
  if (begun_ == 0) SLUICE_RETURN_IF_ERROR(ShareTokens(weights, never));
  PassMemory& memory = *memories_[0];
  SLUICE_ASSIGN_OR_RETURN(memory.in, Enter(batch, never, nullptr, &memory));
  const Pass pass = {.samples = batch.samples,
                     .weights = weights.data(),
                     .cancel = never,
                     .tokens = tokens_ ? tokens_->floats() : nullptr};
  SLUICE_RETURN_IF_ERROR(memory.layers->BeginPass(pass));
  SLUICE_RETURN_IF_ERROR(memory.layers->Forward(pass, memory.in));
  const void* y = memory.layers->Output(memory.in);
  Result result = {.samples = batch.samples};
  if (behind_.there()) {
    SLUICE_RETURN_IF_ERROR(
        behind_.Send(begun_, y, batch.samples * output_bytes_));
  } else {
    SLUICE_ASSIGN_OR_RETURN(const kernels::LossResult loss,
                            memory.loss->Run(batch, y, 1, nullptr));
    result.loss = loss.loss;
    result.correct = loss.correct;
  }
  ++begun_;
  return result;
}

}  // namespace sluice
