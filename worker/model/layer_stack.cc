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

absl::Status PauseBetween(kernels::Device* device, int ahead,
                          const Pass& pass) {
  if (pass.recorded) return absl::OkStatus();
  // First the wait, so that a cancel during it is seen.
  SLUICE_RETURN_IF_ERROR(device->Pace(ahead));
  return pass.cancel.cancelled() ? absl::AbortedError("the task was cancelled")
                                 : absl::OkStatus();
}

namespace {

// Whether a relu follows a layer that computes it as well: a pass over memory
// less, where the device can do so.
bool TakesRelu(absl::Span<const LayerPlan> layers, size_t i) {
  if (!layers[i].layer.has_dense() && !layers[i].layer.has_conv2d()) {
    return false;
  }
  do {
    if (++i == layers.size()) return false;
  } while (layers[i].layer.has_flatten());
  return layers[i].layer.has_relu();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LayerStack>> LayerStack::Create(
    const LayerContext& context, absl::Span<const LayerPlan> layers) {
  auto stack = std::unique_ptr<LayerStack>(new LayerStack(context.device));
  int64_t largest = layers.empty() ? 0 : FloatsOf(layers[0].input_shape);
  bool taken = false;
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerPlan& layer = layers[i];
    // Flatten gives the numbers, in their order, another shape.
    if (layer.layer.has_flatten()) continue;
    const bool relu = TakesRelu(layers, i);
    SLUICE_RETURN_IF_ERROR(stack->AddStep(context, layer, relu));
    stack->steps_.back().within = taken;
    taken = relu;
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
                                 const LayerPlan& plan, bool relu) {
  Step step;
  SLUICE_ASSIGN_OR_RETURN(step.layer, MakeLayer(context, plan, relu));
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

absl::Status LayerStack::BeginPass(const Pass& pass) {
  for (const Step& step : steps_) {
    SLUICE_RETURN_IF_ERROR(step.layer->BeginPass(pass));
  }
  return absl::OkStatus();
}

int64_t LayerStack::ParametersEnd(size_t begin, size_t end) const {
  int64_t last = 0;
  for (size_t i = begin; i < end; ++i) {
    last = std::max(last, steps_[i].layer->parameters().end);
  }
  return last;
}

absl::Status LayerStack::Forward(const Pass& pass, const float* x) {
  SLUICE_RETURN_IF_ERROR(ForwardPart(pass, x, 0, size()).status());
  return PauseBetween(device_, kLayersAhead, pass);
}

absl::StatusOr<const float*> LayerStack::ForwardPart(const Pass& pass,
                                                     const float* x,
                                                     size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    if (steps_[i].within) continue;
    SLUICE_RETURN_IF_ERROR(PauseBetween(device_, kLayersAhead, pass));
    Layer& layer = *steps_[i].layer;
    SLUICE_RETURN_IF_ERROR(pass.need(layer.parameters().end));
    SLUICE_RETURN_IF_ERROR(layer.Forward(pass, InputOf(i, x), steps_[i].y));
  }
  return InputOf(end, x);
}

absl::StatusOr<const float*> LayerStack::Backward(const Pass& pass,
                                                  const float* x,
                                                  const float* dy,
                                                  bool wants_dx) {
  SLUICE_ASSIGN_OR_RETURN(
      const float* dx,
      BackwardPart(pass, x, dy, wants_dx ? 0 : first_with_parameters_, size(),
                   wants_dx));
  return wants_dx ? dx : nullptr;
}

absl::StatusOr<const float*> LayerStack::BackwardPart(const Pass& pass,
                                                      const float* x,
                                                      const float* dy,
                                                      size_t begin, size_t end,
                                                      bool wants_dx) {
  for (size_t i = end; i-- > begin;) {
    SLUICE_RETURN_IF_ERROR(PauseBetween(device_, kLayersAhead, pass));
    Layer& layer = *steps_[i].layer;
    float* const dy_scratch =
        dy == scratch_[0]->floats()   ? scratch_[0]->floats()
        : dy == scratch_[1]->floats() ? scratch_[1]->floats()
                                      : nullptr;
    float* dx = scratch_[dy_scratch == scratch_[0]->floats() ? 1 : 0]->floats();
    if (layer.is_activation() && dy_scratch != nullptr) dx = dy_scratch;
    if (i == first_with_parameters_ && !wants_dx) dx = nullptr;
    SLUICE_RETURN_IF_ERROR(
        layer.Backward(pass, InputOf(i, x), steps_[i].y, dy, dx));
    dy = dx;
  }
  return dy;
}

}  // namespace sluice
