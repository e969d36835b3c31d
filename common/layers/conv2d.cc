#include "absl/strings/str_cat.h"
#include "common/job/fill_default.h"
#include "common/layers/layer_kind.h"
#include "common/layers/shape_inference.h"
#include "common/layers/weights.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

void FillDefaults(proto::Layer* layer) {
  proto::Conv2d* conv = layer->mutable_conv2d();
  SLUICE_DEFAULT(conv, stride, 1);
  SLUICE_DEFAULT(conv, padding, 0);
  SLUICE_DEFAULT(conv, bias, true);
  FillInitializer(conv->mutable_initializer());
}

void Check(const proto::Layer& layer, const std::string& path, Checker* check) {
  const proto::Conv2d& conv = layer.conv2d();
  check->Between(absl::StrCat(path, ".channels"), conv.channels(), 1, 65536);
  check->Between(absl::StrCat(path, ".kernel"), conv.kernel(), 1, 4096);
  check->Between(absl::StrCat(path, ".stride"), conv.stride(), 1, 4096);
  check->Between(absl::StrCat(path, ".padding"), conv.padding(), 0, 4096);
  CheckInitializer(path, conv.initializer(), check);
}

absl::Status Infer(LayerPlan* layer, ShapeInference* model) {
  const proto::Conv2d& conv = layer->layer.conv2d();
  SLUICE_RETURN_IF_ERROR(
      AtLeastOne(*layer, "conv2d.channels", conv.channels()));
  SLUICE_RETURN_IF_ERROR(AtLeastOne(*layer, "conv2d.kernel", conv.kernel()));
  SLUICE_RETURN_IF_ERROR(AtLeastOne(*layer, "conv2d.stride", conv.stride()));
  SLUICE_RETURN_IF_ERROR(
      InferWindows(conv.kernel(), conv.stride(), conv.padding(), layer));
  const int64_t inputs = layer->input_shape[0];
  const int64_t side = conv.kernel();
  const double window = static_cast<double>(side) * side;
  const double most = static_cast<double>(kMaxFloats);
  if (window * inputs > most || window * conv.channels() > most) {
    return LayerError(*layer,
                      absl::StrCat("a kernel of ", side, " is too large"));
  }
  layer->output_shape[0] = conv.channels();
  return AddWeights({conv.channels(), inputs, side, side}, inputs * side * side,
                    conv.channels() * side * side, conv.bias(),
                    conv.initializer(), layer, model);
}

}  // namespace

const LayerKind kConv2dLayer = {FillDefaults, Check, Infer};

}  // namespace sluice
