#include "absl/strings/str_cat.h"
#include "common/job/fill_default.h"
#include "common/layers/layer_kind.h"
#include "common/layers/shape_inference.h"

namespace sluice {
namespace {

void FillDefaults(proto::Layer* layer) {
  SLUICE_DEFAULT(layer->mutable_layer_norm(), epsilon, 1e-5);
}

void Check(const proto::Layer& layer, const std::string& path, Checker* check) {
  check->Epsilon(absl::StrCat(path, ".epsilon"), layer.layer_norm().epsilon());
}

absl::Status Infer(LayerPlan* layer, ShapeInference* model) {
  if (layer->input_shape.size() > 2) {
    return LayerError(
        *layer, absl::StrCat("expected (length, features) or (features), got ",
                             FormatShape(layer->input_shape)));
  }
  return model->AddGammaAndBeta(layer->input_shape.back(), layer);
}

}  // namespace

const LayerKind kLayerNormLayer = {FillDefaults, Check, Infer};

}  // namespace sluice
