// A mini-batch's own mean and variance are written where their gradients
// belong, in the gradient. Backward reads them there, so no other memory is
// needed; and what then travels is what the servers average into the running
// statistics. So they must stay until Backward has said that they are final
// (Pass::gradient).
#include <utility>

#include "common/status_macros.h"
#include "worker/model/layer_stack.h"
#include "worker/model/layers.h"

namespace sluice {
namespace {

class BatchNorm : public Layer {
 public:
  BatchNorm(std::unique_ptr<kernels::BatchNormOp> op, const ModelPlan& plan,
            const LayerPlan& layer)
      : op_(std::move(op)),
        gamma_(plan.tensors[layer.weight].offset),
        beta_(plan.tensors[layer.bias].offset),
        mean_(plan.tensors[layer.running_mean].offset),
        variance_(plan.tensors[layer.running_variance].offset),
        end_(variance_ + plan.tensors[layer.running_variance].size) {}

  absl::Status Forward(const Pass& pass, const void* x, void* y) override {
    const float* const w = pass.weights;
    if (!pass.batch.has_value()) {
      return op_->Apply(pass.samples, x, w + gamma_, w + beta_, w + mean_,
                        w + variance_, y);
    }
    return op_->Normalize(pass.samples, x, w + gamma_, w + beta_,
                          pass.gradient + mean_, pass.gradient + variance_, y);
  }
  absl::Status Backward(const Pass& pass, const void* x, const void* y,
                        const void* dy, void* dx) override {
    float* const g = pass.gradient;
    SLUICE_RETURN_IF_ERROR(op_->Backward(pass.samples, x, pass.weights + gamma_,
                                         g + mean_, g + variance_, dy, dx,
                                         g + gamma_, g + beta_));
    return pass.sink->FinalFrom(parameters().begin);
  }
  // The plan puts all four one behind the other.
  ParameterRange parameters() const override { return {gamma_, end_}; }

 private:
  const std::unique_ptr<kernels::BatchNormOp> op_;
  // Floats from the start of the flat vector.
  const int64_t gamma_, beta_, mean_, variance_, end_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Layer>> MakeBatchNorm(
    const LayerContext& context, const LayerPlan& layer, bool relu) {
  kernels::BatchNormShape shape;
  shape.channels = layer.input_shape[0];
  shape.pixels = SizeOf(layer.input_shape) / shape.channels;
  shape.epsilon = layer.layer.batch_norm().epsilon();
  shape.relu = relu;
  SLUICE_ASSIGN_OR_RETURN(auto op,
                          context.device->Prepare(shape, context.max_samples));
  return std::make_unique<BatchNorm>(std::move(op), context.plan, layer);
}

}  // namespace sluice
