#ifndef SLUICE_WORKER_MODEL_SEQUENCE_LAYERS_H_
#define SLUICE_WORKER_MODEL_SEQUENCE_LAYERS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/model/layer.h"

// Layers of models on sequences, with parameters.
namespace sluice {

// The first layer: its backward has no `dx`. Where the plan has a tied_output
// it adds to what that has written of its gradient.
absl::StatusOr<std::unique_ptr<Layer>> MakeEmbedding(
    const LayerContext& context, const LayerPlan& layer);

// `shape`: of the layer's input.
absl::StatusOr<std::unique_ptr<Layer>> MakeLayerNorm(
    const LayerContext& context, const LayerPlan& layer,
    const kernels::LayerNormShape& shape);

// Has no parameters of its own: backward writes its part of the gradient of the
// embedding's tokens, and leaves it to the embedding to report them.
absl::StatusOr<std::unique_ptr<Layer>> MakeTiedOutput(
    const LayerContext& context, const LayerPlan& layer);

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_SEQUENCE_LAYERS_H_
