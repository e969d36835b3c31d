// Layers that neither mix numbers nor change how many there are.
#include "absl/strings/str_cat.h"
#include "common/job/fill_default.h"
#include "common/layers/layer_kind.h"
#include "common/layers/shape_inference.h"

namespace sluice {
namespace {

void FillDropout(proto::Layer* layer) {
  SLUICE_DEFAULT(layer->mutable_dropout(), rate, 0.5);
}

void CheckDropout(const proto::Layer& layer, const std::string& path,
                  Checker* check) {
  check->Share(absl::StrCat(path, ".rate"), layer.dropout().rate());
}

absl::Status Flatten(LayerPlan* layer, ShapeInference*) {
  layer->output_shape = {ShapeProduct(layer->input_shape)};
  return absl::OkStatus();
}

}  // namespace

const LayerKind kActivationLayer = {};  // relu, tanh, gelu, sigmoid.
const LayerKind kDropoutLayer = {.fill_defaults = FillDropout,
                                 .check = CheckDropout};
const LayerKind kFlattenLayer = {.infer = Flatten};

}  // namespace sluice
