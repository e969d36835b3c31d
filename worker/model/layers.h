#ifndef SLUICE_WORKER_MODEL_LAYERS_H_
#define SLUICE_WORKER_MODEL_LAYERS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "worker/model/layer.h"

// The kinds of layers that have a file of their own; MakeLayer makes them and
// all others. `relu` as MakeLayer's.
namespace sluice {

// Batch normalisation over channels or features (batch_norm.cc). In training
// the mini-batch's mean and variance are written into the slots of the running
// statistics in the pass's gradient, by Forward, and Backward reads them there.
absl::StatusOr<std::unique_ptr<Layer>> MakeBatchNorm(
    const LayerContext& context, const LayerPlan& layer, bool relu);

// y = f(x) + x, or f(x) + p(x) where the plan has a projection (residual.cc).
absl::StatusOr<std::unique_ptr<Layer>> MakeResidual(const LayerContext& context,
                                                    const LayerPlan& layer,
                                                    bool relu);

// Layers of models on sequences, with parameters (sequence_layers.cc).
//
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

#endif  // SLUICE_WORKER_MODEL_LAYERS_H_
