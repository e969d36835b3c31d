#include "absl/strings/str_cat.h"
#include "common/job/fill_default.h"
#include "common/layers/layer_kind.h"
#include "common/layers/shape_inference.h"
#include "common/layers/weights.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

void FillDefaults(proto::Layer* layer) {
  SLUICE_DEFAULT(layer->mutable_dense(), bias, true);
  FillInitializer(layer->mutable_dense()->mutable_initializer());
}

void Check(const proto::Layer& layer, const std::string& path, Checker* check) {
  const proto::Dense& dense = layer.dense();
  check->Between(absl::StrCat(path, ".units"), dense.units(), 1, 1 << 24);
  CheckInitializer(path, dense.initializer(), check);
}

// (features) to (units), or of a sequence each place: (length, units).
absl::Status Infer(LayerPlan* layer, ShapeInference* model) {
  const proto::Dense& dense = layer->layer.dense();
  const std::vector<int64_t>& input = layer->input_shape;
  if (input.size() > 2) {
    return LayerError(
        *layer, absl::StrCat("expected a flat input (features), ", "got ",
                             FormatShape(input), "; put a flatten before it"));
  }
  const int64_t units = dense.units();
  SLUICE_RETURN_IF_ERROR(AtLeastOne(*layer, "dense.units", units));
  layer->output_shape.back() = units;
  return AddWeights({units, input.back()}, input.back(), units, dense.bias(),
                    dense.initializer(), layer, model);
}

}  // namespace

const LayerKind kDenseLayer = {FillDefaults, Check, Infer};

}  // namespace sluice
