#include "worker/model/layer_stack.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"

namespace sluice {
namespace {

// Layers that are handed to the device before it is done with the first: enough
// that it never waits for the host where they are short.
constexpr int kLayersAhead = 4;

}  // namespace

int64_t FloatsOf(const std::vector<int64_t>& shape) {
  int64_t floats = 1;
  for (int64_t dimension : shape) floats *= dimension;
  return floats;
}

absl::StatusOr<std::unique_ptr<LayerStack>> LayerStack::Create(
    const LayerContext& context, absl::Span<const LayerPlan> layers) {
  auto stack = std::unique_ptr<LayerStack>(new LayerStack(context.device));
  int64_t largest = layers.empty() ? 0 : FloatsOf(layers[0].input_shape);
  for (const LayerPlan& layer : layers) {
    // Flatten gives the numbers, in their order, another shape.
    if (layer.layer.has_flatten()) continue;
    SLUICE_RETURN_IF_ERROR(stack->AddStep(context, layer));
    largest = std::max(largest, FloatsOf(layer.output_shape));
  }
  std::vector<Step>& steps = stack->steps_;
  stack->first_with_parameters_ = steps.size();
  for (size_t i = steps.size(); i-- > 0;) {
    const ParameterRange range = steps[i].layer->parameters();
    if (range.size() == 0) continue;
    stack->first_with_parameters_ = i;
    ParameterRange& all = stack->parameters_;
    all = {range.begin, all.size() == 0 ? range.end : all.end};
  }
  for (auto& scratch : stack->scratch_) {
    if (steps.empty()) break;
    SLUICE_ASSIGN_OR_RETURN(
        scratch, context.device->Allocate(context.max_samples * largest *
                                          sizeof(float)));
  }
  return stack;
}

absl::Status LayerStack::AddStep(const LayerContext& context,
                                 const LayerPlan& plan) {
  Step step;
  SLUICE_ASSIGN_OR_RETURN(step.layer, MakeLayer(context, plan));
  // Behind a layer with parameters, whose backward does not look at its
  // output, an activation overwrites that output: a pass over memory less.
  if (step.layer->is_activation() && !steps_.empty() &&
      steps_.back().layer->parameters().size() > 0) {
    step.y = steps_.back().y;
  } else {
    SLUICE_ASSIGN_OR_RETURN(
        step.buffer,
        context.device->Allocate(context.max_samples *
                                 FloatsOf(plan.output_shape) * sizeof(float)));
    step.y = step.buffer->floats();
  }
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status LayerStack::BetweenLayers(const Pass& pass) const {
  // First the wait, so that a cancel during it is seen.
  SLUICE_RETURN_IF_ERROR(device_->Pace(kLayersAhead));
  return pass.cancel.cancelled() ? absl::AbortedError("the task was cancelled")
                                 : absl::OkStatus();
}

absl::Status LayerStack::BeginPass(const Pass& pass) {
  for (const Step& step : steps_) {
    SLUICE_RETURN_IF_ERROR(step.layer->BeginPass(pass));
  }
  return absl::OkStatus();
}

absl::Status LayerStack::Forward(const Pass& pass, const float* x) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(BetweenLayers(pass));
    Layer& layer = *steps_[i].layer;
    SLUICE_RETURN_IF_ERROR(pass.need(layer.parameters().end));
    SLUICE_RETURN_IF_ERROR(layer.Forward(pass, InputOf(i, x), steps_[i].y));
  }
  return BetweenLayers(pass);
}

absl::StatusOr<const float*> LayerStack::Backward(const Pass& pass,
                                                  const float* x,
                                                  const float* dy,
                                                  bool wants_dx) {
  const size_t end = wants_dx ? 0 : first_with_parameters_;
  for (size_t i = steps_.size(); i-- > end;) {
    SLUICE_RETURN_IF_ERROR(BetweenLayers(pass));
    Layer& layer = *steps_[i].layer;
    float* const dy_scratch =
        dy == scratch_[0]->floats()   ? scratch_[0]->floats()
        : dy == scratch_[1]->floats() ? scratch_[1]->floats()
                                      : nullptr;
    float* dx = scratch_[dy_scratch == scratch_[0]->floats() ? 1 : 0]->floats();
    if (layer.is_activation() && dy_scratch != nullptr) dx = dy_scratch;
    if (i == end && !wants_dx) dx = nullptr;
    SLUICE_RETURN_IF_ERROR(
        layer.Backward(pass, InputOf(i, x), steps_[i].y, dy, dx));
    dy = dx;
  }
  return wants_dx ? dy : nullptr;
}

}  // namespace sluice
