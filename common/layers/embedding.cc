// An embedding, and tied_output, which takes its tokens as weights.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/job/fill_default.h"
#include "common/layers/layer_kind.h"
#include "common/layers/shape_inference.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

void FillDefaults(proto::Layer* layer) {
  SLUICE_DEFAULT(layer->mutable_embedding(), vocabulary, 256);
}

void Check(const proto::Layer& layer, const std::string& path, Checker* check) {
  const proto::Embedding& embedding = layer.embedding();
  check->Between(absl::StrCat(path, ".vocabulary"), embedding.vocabulary(), 256,
                 65536);
  check->Between(absl::StrCat(path, ".features"), embedding.features(), 1,
                 65536);
}

// (length) to (length, features).
absl::Status Infer(LayerPlan* layer, ShapeInference* model) {
  const proto::Embedding& embedding = layer->layer.embedding();
  const int64_t features = embedding.features();
  SLUICE_RETURN_IF_ERROR(AtLeastOne(*layer, "embedding.features", features));
  SLUICE_RETURN_IF_ERROR(
      AtLeastOne(*layer, "embedding.vocabulary", embedding.vocabulary()));
  const std::vector<int64_t>& input = layer->input_shape;
  if (!model->is_first() || input.size() != 1) {
    return LayerError(
        *layer,
        absl::StrCat("must be the first layer of a model on bytes, (length); ",
                     model->is_first() ? "got " : "comes behind others, got ",
                     FormatShape(input)));
  }
  // Of deviation 0.02.
  const TensorInitializer init = {.kind = TensorInitializer::Kind::kUniform,
                                  .limit = 0.02 * std::sqrt(3.0)};
  model->plan().vocabulary = embedding.vocabulary();
  SLUICE_ASSIGN_OR_RETURN(
      layer->weight,
      model->AddTensor(*layer, "token", {embedding.vocabulary(), features},
                       init, /*decay=*/true));
  SLUICE_ASSIGN_OR_RETURN(
      layer->bias, model->AddTensor(*layer, "position", {input[0], features},
                                    init, /*decay=*/true));
  layer->output_shape.push_back(features);
  return absl::OkStatus();
}

// (length, features) to (length, vocabulary).
absl::Status InferTiedOutput(LayerPlan* layer, ShapeInference* model) {
  ModelPlan& plan = model->plan();
  if (plan.vocabulary == 0) {
    return LayerError(*layer, "needs an embedding before it, there is none");
  }
  if (plan.tied_output) {
    return LayerError(*layer, "a model has at most one tied_output");
  }
  const int tokens = 0;  // An embedding is the first layer.
  const std::vector<int64_t>& table = plan.tensors[tokens].shape;
  const std::vector<int64_t>& input = layer->input_shape;
  if (input.size() != 2 || input[1] != table[1]) {
    return LayerError(*layer, absl::StrCat("expected (length, ", table[1],
                                           "), the embedding's features, got ",
                                           FormatShape(input)));
  }
  layer->weight = tokens;
  plan.tied_output = true;
  layer->output_shape[1] = table[0];
  return absl::OkStatus();
}

}  // namespace

const LayerKind kEmbeddingLayer = {FillDefaults, Check, Infer};
const LayerKind kTiedOutputLayer = {.infer = InferTiedOutput};

}  // namespace sluice
