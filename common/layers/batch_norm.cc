#include "absl/strings/str_cat.h"
#include "common/job/fill_default.h"
#include "common/layers/layer_kind.h"
#include "common/layers/shape_inference.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

void FillDefaults(proto::Layer* layer) {
  SLUICE_DEFAULT(layer->mutable_batch_norm(), momentum, 0.1);
  SLUICE_DEFAULT(layer->mutable_batch_norm(), epsilon, 1e-5);
}

void Check(const proto::Layer& layer, const std::string& path, Checker* check) {
  const proto::BatchNorm& norm = layer.batch_norm();
  check->AboveZero(absl::StrCat(path, ".momentum"), norm.momentum(), 1);
  check->Epsilon(absl::StrCat(path, ".epsilon"), norm.epsilon());
}

absl::Status Infer(LayerPlan* layer, ShapeInference* model) {
  const size_t dimensions = layer->input_shape.size();
  if (dimensions != 1 && dimensions != 3) {
    return LayerError(*layer,
                      absl::StrCat("expected (channels, height, width) or "
                                   "(features), got ",
                                   FormatShape(layer->input_shape)));
  }
  const int64_t channels = layer->input_shape[0];
  SLUICE_RETURN_IF_ERROR(model->AddGammaAndBeta(channels, layer));
  const auto add_statistic = [&](const std::string& suffix,
                                 double start) -> absl::StatusOr<int> {
    SLUICE_ASSIGN_OR_RETURN(
        const int tensor, model->AddTensor(*layer, suffix, {channels},
                                           {.value = start}, /*decay=*/false));
    model->plan().tensors[tensor].moving_average =
        layer->layer.batch_norm().momentum();
    return tensor;
  };
  SLUICE_ASSIGN_OR_RETURN(layer->running_mean,
                          add_statistic("running_mean", 0));
  SLUICE_ASSIGN_OR_RETURN(layer->running_variance,
                          add_statistic("running_variance", 1));
  return absl::OkStatus();
}

}  // namespace

const LayerKind kBatchNormLayer = {FillDefaults, Check, Infer};

}  // namespace sluice
