#include "common/layers/model_plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/layers/layer_kind.h"
#include "common/layers/shape_inference.h"
#include "common/status_macros.h"

namespace sluice {

absl::StatusOr<ModelPlan> PlanModel(const proto::Model& model,
                                    const std::vector<int64_t>& input_shape) {
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
