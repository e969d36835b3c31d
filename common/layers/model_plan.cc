#include "common/layers/model_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/layers/layer_kind.h"
#include "common/layers/shape_inference.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// A model without layers: what a model process is given.
ModelPlan PlanExternal(const proto::ExternalModel& external) {
  ModelPlan plan;
  int64_t offset = 0;
  for (const proto::ExternalTensor& tensor : external.tensor()) {
    TensorSpec spec;
    spec.name = tensor.name();
    spec.shape.assign(tensor.shape().begin(), tensor.shape().end());
    spec.offset = offset;
    spec.size = ShapeProduct(spec.shape);
    offset += spec.size;
    if (tensor.kind() != proto::ExternalTensor::WEIGHT) spec.factors.decay = 0;
    if (tensor.kind() == proto::ExternalTensor::STATISTIC) {
      spec.moving_average = tensor.momentum();
    }
    plan.tensors.push_back(std::move(spec));
  }
  return plan;
}

}  // namespace

bool HaveTiedOutput(const std::vector<LayerPlan>& layers) {
  return std::ranges::any_of(layers, [](const LayerPlan& layer) {
    return layer.layer.has_tied_output() || HaveTiedOutput(layer.body);
  });
}

absl::StatusOr<ModelPlan> PlanModel(const proto::Model& model,
                                    const std::vector<int64_t>& input_shape) {
  if (model.has_external()) return PlanExternal(model.external());
  if (input_shape.empty() || ShapeProduct(input_shape) < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("model: the input's sizes must be 1 or more, are ",
                     FormatShape(input_shape)));
  }
  Layers layers = model.layer();
  FillLayerDefaults(&layers);
  ShapeInference inference;
  ModelPlan& plan = inference.plan();
  plan.input_shape = input_shape;
  std::vector<int64_t> output = input_shape;
  SLUICE_RETURN_IF_ERROR(
      inference.AddLayers(layers, /*prefix=*/"", &output, &plan.layers));
  if (plan.tensors.empty()) {
    return absl::InvalidArgumentError(
        "model: expected a layer with weights (dense, conv2d), got none");
  }
  if (output.size() > 2) {
    return LayerError(
        plan.layers.back(),
        absl::StrCat("the loss expects a flat output, got ",
                     FormatShape(output), "; put a flatten after it"));
  }
  return std::move(plan);
}

}  // namespace sluice
