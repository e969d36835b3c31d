#include "absl/strings/str_cat.h"
#include "common/layers/layer_kind.h"
#include "common/layers/shape_inference.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

void Check(const proto::Layer& layer, const std::string& path, Checker* check) {
  check->Between(absl::StrCat(path, ".heads"), layer.attention().heads(), 1,
                 1024);
}

// Queries, keys and values of each place, (length, 3 x features), to (length,
// features).
absl::Status Infer(LayerPlan* layer, ShapeInference*) {
  const int64_t heads = layer->layer.attention().heads();
  SLUICE_RETURN_IF_ERROR(AtLeastOne(*layer, "attention.heads", heads));
  const std::vector<int64_t>& input = layer->input_shape;
  if (input.size() != 2 || input[1] % (3 * heads) != 0) {
    return LayerError(
        *layer,
        absl::StrCat("expected (length, 3 x features), of which each ", "of ",
                     heads, " heads has as many, got ", FormatShape(input)));
  }
  layer->output_shape[1] /= 3;
  return absl::OkStatus();
}

}  // namespace

const LayerKind kAttentionLayer = {.check = Check, .infer = Infer};

}  // namespace sluice
