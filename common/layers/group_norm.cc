#include "absl/strings/str_cat.h"
#include "common/job/fill_default.h"
#include "common/layers/layer_kind.h"
#include "common/layers/shape_inference.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

void FillDefaults(proto::Layer* layer) {
  SLUICE_DEFAULT(layer->mutable_group_norm(), groups, 32);
  SLUICE_DEFAULT(layer->mutable_group_norm(), epsilon, 1e-5);
}

void Check(const proto::Layer& layer, const std::string& path, Checker* check) {
  const proto::GroupNorm& norm = layer.group_norm();
  check->Between(absl::StrCat(path, ".groups"), norm.groups(), 1, 65536);
  check->Epsilon(absl::StrCat(path, ".epsilon"), norm.epsilon());
}

absl::Status Infer(LayerPlan* layer, ShapeInference* model) {
  const int64_t groups = layer->layer.group_norm().groups();
  SLUICE_RETURN_IF_ERROR(CheckImage(*layer));
  SLUICE_RETURN_IF_ERROR(AtLeastOne(*layer, "group_norm.groups", groups));
  const int64_t channels = layer->input_shape[0];
  if (channels % groups != 0) {
    return LayerError(*layer, absl::StrCat("group_norm.groups must divide the ",
                                           channels, " channels, is ", groups));
  }
  return model->AddGammaAndBeta(channels, layer);
}

}  // namespace

const LayerKind kGroupNormLayer = {FillDefaults, Check, Infer};

}  // namespace sluice
