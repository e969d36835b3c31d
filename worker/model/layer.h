#ifndef SLUICE_WORKER_MODEL_LAYER_H_
#define SLUICE_WORKER_MODEL_LAYER_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model_plan.h"
#include "kernels/device.h"

namespace sluice {

// One layer on one device: its operation, and where in the flat vector its
// parameters lie. Arrays are device memory with the samples first; `weights`
// and `gradient` are the whole flat vectors. Keeps nothing between calls.
//
// Not thread-safe: call from the thread that computes.
class Layer {
 public:
  virtual ~Layer() = default;

  virtual absl::Status Forward(int64_t samples, const float* weights,
                               const float* x, float* y) = 0;
  // From `dy`, the gradient at y: writes the layer's part of `gradient`, and
  // `dx` unless it is nullptr. `x` and `y` are those of Forward.
  virtual absl::Status Backward(int64_t samples, const float* weights,
                                const float* x, const float* y, const float* dy,
                                float* dx, float* gradient) = 0;

  // The layer's parameters; empty where it has none.
  virtual ParameterRange parameters() const { return {}; }
  // An activation: Forward may run in place, Backward ignores `x` and may run
  // with `dx` = `dy`.
  virtual bool is_activation() const { return false; }
};

// Prepares layer `layer` of `plan` for up to `max_samples`.
// REQUIRES: it is no flatten, which leaves the numbers where they are.
absl::StatusOr<std::unique_ptr<Layer>> MakeLayer(const ModelPlan& plan,
                                                 const LayerPlan& layer,
                                                 int64_t max_samples,
                                                 kernels::Device* device);

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_LAYER_H_
