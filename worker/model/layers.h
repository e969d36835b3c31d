#ifndef SLUICE_WORKER_MODEL_LAYERS_H_
#define SLUICE_WORKER_MODEL_LAYERS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "proto/job.pb.h"
#include "worker/data/data_source.h"
#include "worker/model/layer.h"

// The kinds of layers that have a file of their own, and the loss. MakeLayer
// makes these layers and all others. `relu` as MakeLayer's.
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

// ---- What comes behind the layers (loss.cc).

// What training minimises, on one device.
//
// Not thread-safe: call from the compute thread.
class Loss {
 public:
  virtual ~Loss() = default;

  // The loss of the model's `outputs` (samples, places, outputs), the mean over
  // samples and mean_places(), against the batch's labels (samples, places) or
  // targets, and the gradient at `outputs`, times `scale`, a power of two,
  // unless `doutputs` is nullptr; both are activations in device memory and may
  // be the same.
  // Waits for the result.
  // kInvalidArgument where the batch does not fit: says which sample or how
  // many numbers, and what was expected.
  virtual absl::StatusOr<kernels::LossResult> Run(const Batch& batch,
                                                  const void* outputs,
                                                  float scale,
                                                  void* doutputs) = 0;
  // A sample's places over which that is a mean; 1 where it is a sum over them.
  virtual int64_t mean_places() const = 0;
};

// Prepares `kind` over `outputs` numbers at each of a sample's `places`, for up
// to `max_samples`.
// kInvalidArgument where it does not fit data that has labels
// (`classification`) or real targets.
absl::StatusOr<std::unique_ptr<Loss>> MakeLoss(proto::Model::Loss kind,
                                               bool classification,
                                               int64_t places, int64_t outputs,
                                               int64_t max_samples,
                                               kernels::Device* device);

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_LAYERS_H_
