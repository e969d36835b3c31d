// What lies in which memory. Of conv, relu, pool, dense, relu, the conv and the
// dense compute the relu behind them (TakesRelu), whose own forward is then
// left out. Forward goes down this table, backward up:
//
//           forward                     backward, from dy in scratch 0
//   conv    y in a, with the relu       no dx: nothing before it has parameters
//   relu    (within) y is a             in place, scratch 0
//   pool    y in b                      dx in scratch 0
//   dense   y in c, with the relu       dx in scratch 1
//   relu    (within) y is c             in place, scratch 0
//
// Activations are kept from forward to backward, as layers look at them again;
// gradients at them are not, so two arrays of the largest size are enough for
// all.
#include "worker/model/layer_stack.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "kernels/accelerator.h"

namespace sluice {
namespace {

// Layers that are handed to the device before it is done with the first: enough
// that it never waits for the host where they are short.
constexpr int kLayersAhead = 4;

}  // namespace

int64_t SizeOf(const std::vector<int64_t>& shape) {
  int64_t size = 1;
  for (int64_t dimension : shape) size *= dimension;
  return size;
}

ImageShape ImageShapeOf(const std::vector<int64_t>& shape) {
  if (shape.size() != 3) return {.channels = SizeOf(shape)};
  return {.channels = shape[0], .pixels = shape[1] * shape[2]};
}

absl::Status LookForCancel(const Pass& pass) {
  return pass.cancel.cancelled() ? absl::AbortedError("the task was cancelled")
                                 : absl::OkStatus();
}

absl::Status PauseBetween(kernels::Accelerator* accelerator, int ahead,
                          const Pass& pass) {
  if (pass.recorded) return absl::OkStatus();
  // First the wait, so that a cancel during it is seen.
  if (accelerator != nullptr) SLUICE_RETURN_IF_ERROR(accelerator->Pace(ahead));
  return LookForCancel(pass);
}

namespace {

// What becomes a step.
struct Planned {
  const LayerPlan* plan = nullptr;
  std::unique_ptr<Layer> flatten;  // Of one, already made.
};

// All layers but flattens that leave the numbers where they are: those give
// them, in their order, another shape.
absl::StatusOr<std::vector<Planned>> PlanSteps(
    const LayerContext& context, absl::Span<const LayerPlan> layers) {
  std::vector<Planned> steps;
  for (const LayerPlan& layer : layers) {
    Planned step;
    step.plan = &layer;
    if (layer.layer.has_flatten()) {
      SLUICE_ASSIGN_OR_RETURN(step.flatten, MakeLayer(context, layer));
      if (step.flatten == nullptr) continue;
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

// Whether a relu follows a layer that computes it as well: a pass over memory
// less, where the device can do so.
bool TakesRelu(const std::vector<Planned>& steps, size_t i) {
  const proto::Layer& layer = steps[i].plan->layer;
  const bool can = layer.has_dense() || layer.has_conv2d() ||
                   layer.has_batch_norm() || layer.has_residual();
  return can && i + 1 < steps.size() && steps[i + 1].plan->layer.has_relu();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LayerStack>> LayerStack::Create(
    const LayerContext& context, absl::Span<const LayerPlan> layers) {
  auto stack = std::unique_ptr<LayerStack>(
      new LayerStack(context.device->accelerator()));
  int64_t largest = layers.empty() ? 0 : SizeOf(layers[0].input_shape);
  bool taken = false;
  SLUICE_ASSIGN_OR_RETURN(std::vector<Planned> planned,
                          PlanSteps(context, layers));
  for (size_t i = 0; i < planned.size(); ++i) {
    const LayerPlan& plan = *planned[i].plan;
    const bool relu = TakesRelu(planned, i);
    std::unique_ptr<Layer> layer = std::move(planned[i].flatten);
    if (layer == nullptr) {
      SLUICE_ASSIGN_OR_RETURN(layer, MakeLayer(context, plan, relu));
    }
    SLUICE_RETURN_IF_ERROR(
        stack->AddStep(context, plan, std::move(layer), taken));
    taken = relu;
    largest = std::max(largest, SizeOf(plan.output_shape));
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
                                          context.device->activation_bytes()));
  }
  return stack;
}

absl::Status LayerStack::AddStep(const LayerContext& context,
                                 const LayerPlan& plan,
                                 std::unique_ptr<Layer> layer, bool within) {
  Step step;
  step.layer = std::move(layer);
  step.within = within;
  // Behind a layer with parameters, whose backward does not look at its
  // output, an activation overwrites that output: a pass over memory less. One
  // that is part of the layer before it, which may be a residual without any,
  // is written there.
  if (within || (step.layer->is_activation() && !steps_.empty() &&
                 steps_.back().layer->parameters().size() > 0)) {
    step.y = steps_.back().y;
  } else {
    SLUICE_ASSIGN_OR_RETURN(
        step.buffer, context.device->Allocate(
                         context.max_samples * SizeOf(plan.output_shape) *
                         context.device->activation_bytes()));
    step.y = step.buffer->data();
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

absl::Status LayerStack::Pause(const Pass& pass) const {
  return PauseBetween(accelerator_, kLayersAhead, pass);
}

absl::Status LayerStack::Forward(const Pass& pass, const void* x) {
  SLUICE_RETURN_IF_ERROR(ForwardPart(pass, x, 0, size()).status());
  return Pause(pass);
}

absl::StatusOr<const void*> LayerStack::ForwardPart(const Pass& pass,
                                                    const void* x, size_t begin,
                                                    size_t end) {
  for (size_t i = begin; i < end; ++i) {
    if (steps_[i].within) continue;
    SLUICE_RETURN_IF_ERROR(Pause(pass));
    SLUICE_RETURN_IF_ERROR(
        steps_[i].layer->Forward(pass, InputOf(i, x), steps_[i].y));
  }
  return InputOf(end, x);
}

absl::StatusOr<const void*> LayerStack::Backward(const Pass& pass,
                                                 const void* x, const void* dy,
                                                 bool wants_dx) {
  SLUICE_ASSIGN_OR_RETURN(
      const void* dx,
      BackwardPart(pass, x, dy, wants_dx ? 0 : first_with_parameters_, size(),
                   wants_dx));
  return wants_dx ? dx : nullptr;
}

absl::StatusOr<const void*> LayerStack::BackwardPart(const Pass& pass,
                                                     const void* x,
                                                     const void* dy,
                                                     size_t begin, size_t end,
                                                     bool wants_dx) {
  for (size_t i = end; i-- > begin;) {
    SLUICE_RETURN_IF_ERROR(Pause(pass));
    Layer& layer = *steps_[i].layer;
    void* const dy_scratch = dy == scratch_[0]->data()   ? scratch_[0]->data()
                             : dy == scratch_[1]->data() ? scratch_[1]->data()
                                                         : nullptr;
    void* dx = scratch_[dy_scratch == scratch_[0]->data() ? 1 : 0]->data();
    if (layer.is_activation() && dy_scratch != nullptr) dx = dy_scratch;
    if (i == first_with_parameters_ && !wants_dx) dx = nullptr;
    SLUICE_RETURN_IF_ERROR(
        layer.Backward(pass, InputOf(i, x), steps_[i].y, dy, dx));
    dy = dx;
  }
  return dy;
}

}  // namespace sluice
