// Where the body changes the shape, a projection without bias takes the input
// there: a dense layer, or for images a 1x1 convolution whose stride follows
// from the heights and widths: the smallest that fits both, if any does.
//
//   (64, 56, 56) to (128, 28, 28)    stride 2: (56 - 1) / 2 + 1 = 28
//   (64, 7, 7) to (64, 4, 4)         stride 2: (7 - 1) / 2 + 1 = 4
//   (64, 5, 5) to (64, 4, 4)         stride 2 would give 3: refused
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/job/fill_default.h"
#include "common/layers/layer_kind.h"
#include "common/layers/shape_inference.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

void FillDefaults(proto::Layer* layer) {
  SLUICE_DEFAULT(layer->mutable_residual(), zero_init_last_gamma, false);
  FillLayerDefaults(layer->mutable_residual()->mutable_layer());
}

void Check(const proto::Layer& layer, const std::string& path, Checker* check) {
  CheckLayers(absl::StrCat(path, ".layer"), layer.residual().layer(), check);
}

absl::Status ZeroLastGamma(const LayerPlan& residual, ModelPlan* plan) {
  for (auto layer = residual.body.rbegin(); layer != residual.body.rend();
       ++layer) {
    if (!layer->layer.has_batch_norm()) continue;
    plan->tensors[layer->weight].initializer.value = 0;
    return absl::OkStatus();
  }
  return LayerError(residual,
                    "zero_init_last_gamma needs a batch_norm among its layers");
}

// Adds the 1x1 layer, if there is one, that takes the input to the shape of
// the body's output, which is the residual's.
absl::Status Project(LayerPlan* residual, ShapeInference* model) {
  const std::vector<int64_t>& from = residual->input_shape;
  const std::vector<int64_t>& to = residual->output_shape;
  Layers projection;
  if (from.size() == to.size() && from.size() <= 2) {
    proto::Dense* dense = projection.Add()->mutable_dense();
    dense->set_units(to.back());
    dense->set_bias(false);
  } else if (from.size() == 3 && to.size() == 3) {
    proto::Conv2d* conv = projection.Add()->mutable_conv2d();
    conv->set_channels(to[0]);
    conv->set_kernel(1);
    conv->set_stride(
        std::max((from[1] + to[1] - 1) / to[1], (from[2] + to[2] - 1) / to[2]));
    conv->set_bias(false);
  }
  for (proto::Layer& layer : projection) layer.set_name("projection");
  FillLayerDefaults(&projection);
  std::vector<int64_t> shape = from;
  SLUICE_RETURN_IF_ERROR(model->AddLayers(projection, residual->name + ".",
                                          &shape, &residual->projection));
  if (shape == to) return absl::OkStatus();
  return LayerError(
      *residual,
      absl::StrCat("no 1x1 projection takes its input ", FormatShape(from),
                   " to its layers' output ", FormatShape(to)));
}

absl::Status Infer(LayerPlan* layer, ShapeInference* model) {
  const proto::Residual& residual = layer->layer.residual();
  SLUICE_RETURN_IF_ERROR(model->AddLayers(residual.layer(), layer->name + ".",
                                          &layer->output_shape, &layer->body));
  if (residual.zero_init_last_gamma()) {
    SLUICE_RETURN_IF_ERROR(ZeroLastGamma(*layer, &model->plan()));
  }
  if (layer->output_shape == layer->input_shape) return absl::OkStatus();
  return Project(layer, model);
}

}  // namespace

const LayerKind kResidualLayer = {FillDefaults, Check, Infer};

}  // namespace sluice
