#ifndef SLUICE_WORKER_MODEL_LAYER_H_
#define SLUICE_WORKER_MODEL_LAYER_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/layers/model_plan.h"
#include "common/parameter_layout.h"
#include "kernels/device.h"
#include "worker/task/cancel_token.h"
#include "worker/task/flow.h"

namespace sluice {

// What one run through the model has in common for all its layers. Arrays are
// device memory; `weights` and `gradient` are the whole flat vectors. A layer
// is called when its own weights are there (LayerStack).
struct Pass {
  int64_t samples = 0;
  const float* weights = nullptr;
  // Looked at between layers.
  const CancelToken& cancel;
  // The mini-batch that is trained on; an evaluation has none.
  std::optional<BatchId> batch = std::nullopt;
  int64_t first = 0;  // Where its samples begin in the mini-batch.
  // Where a tied_output finds the embedding's tokens, and writes its part of
  // their gradient, if these are not in the vectors: they are another stage's.
  const float* tokens = nullptr;
  float* tokens_gradient = nullptr;

  // Of training only. In forward a layer may write running statistics, which
  // stay until its backward has reported its part.
  float* gradient = nullptr;
  // Of backward only. A layer that has written its part of the gradient says
  // that everything from there on is final: the parts are written from the
  // vector's end to its beginning.
  GradientSink* sink = nullptr;
  // Its operations are recorded, and nothing but them: nobody waits for the
  // device, and cancelling is not looked at.
  bool recorded = false;
};

// One layer on one device: its operation, and where in the flat vector its
// parameters lie. Arrays are activations and the gradients at them, as
// kernels/operations.h says, in device memory with the samples first; an
// embedding's `x` are the inputs, floats. Keeps nothing from one Forward and
// its Backward to the next.
//
// Not thread-safe: call from the compute thread.
class Layer {
 public:
  virtual ~Layer() = default;

  // Comes before a pass's Forward, and before that of any other layer.
  virtual absl::Status BeginPass(const Pass& pass) { return absl::OkStatus(); }
  virtual absl::Status Forward(const Pass& pass, const void* x, void* y) = 0;
  // From `dy`, the gradient at y: writes the layer's part of the pass's
  // gradient and says so to its sink, and writes `dx` unless it is nullptr. `x`
  // and `y` are those of Forward.
  virtual absl::Status Backward(const Pass& pass, const void* x, const void* y,
                                const void* dy, void* dx) = 0;

  // The layer's parameters; empty where it has none. A layer that has some, or
  // that was made with relu, does not look at `y` in Backward.
  virtual ParameterRange parameters() const { return {}; }
  // Forward may run in place, Backward ignores `x` and may run with `dx` =
  // `dy`.
  virtual bool is_activation() const { return false; }
};

// What layers are made from.
struct LayerContext {
  const ModelPlan& plan;
  uint64_t seed = 0;
  int64_t max_samples = 1;
  kernels::Device* device = nullptr;  // Must outlive the layers.
};

// Prepares `layer` of the context's plan; nullptr for a flatten that leaves the
// numbers where they are. With `relu`, which dense, conv2d, batch_norm and
// residual may have, y is that of the relu behind it; its backward is still
// that of what the relu is given.
absl::StatusOr<std::unique_ptr<Layer>> MakeLayer(const LayerContext& context,
                                                 const LayerPlan& layer,
                                                 bool relu = false);

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_LAYER_H_
