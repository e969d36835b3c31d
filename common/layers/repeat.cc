#include "absl/strings/str_cat.h"
#include "common/layers/layer_kind.h"
#include "common/layers/shape_inference.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

void FillDefaults(proto::Layer* layer) {
  FillLayerDefaults(layer->mutable_repeat()->mutable_layer());
}

void Check(const proto::Layer& layer, const std::string& path, Checker* check) {
  check->Between(absl::StrCat(path, ".times"), layer.repeat().times(), 1, 1024);
  CheckLayers(absl::StrCat(path, ".layer"), layer.repeat().layer(), check);
}

// Its body is what comes in its place: "repeat4.0.conv2d0" and so on.
absl::Status Infer(LayerPlan* layer, ShapeInference* model) {
  const proto::Repeat& repeat = layer->layer.repeat();
  for (int i = 0; i < repeat.times(); ++i) {
    SLUICE_RETURN_IF_ERROR(
        model->AddLayers(repeat.layer(), absl::StrCat(layer->name, ".", i, "."),
                         &layer->output_shape, &layer->body));
  }
  return absl::OkStatus();
}

}  // namespace

const LayerKind kRepeatLayer = {FillDefaults, Check, Infer};

}  // namespace sluice
