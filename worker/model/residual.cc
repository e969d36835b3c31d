// y = body(x) + x, or body(x) + projection(x). The projection's output is
// written to y, and the sum over it; likewise its dx. So a residual has no
// memory of its own.
#include <utility>

#include "common/status_macros.h"
#include "worker/model/layer_stack.h"
#include "worker/model/layers.h"

namespace sluice {
namespace {

class Residual : public Layer {
 public:
  // `projection` is nullptr where the shape stays.
  Residual(std::unique_ptr<LayerStack> body, std::unique_ptr<Layer> projection,
           std::unique_ptr<kernels::SumOp> sum_outputs,
           std::unique_ptr<kernels::SumOp> sum_inputs)
      : body_(std::move(body)),
        projection_(std::move(projection)),
        sum_outputs_(std::move(sum_outputs)),
        sum_inputs_(std::move(sum_inputs)) {}

  absl::Status BeginPass(const Pass& pass) override {
    SLUICE_RETURN_IF_ERROR(body_->BeginPass(pass));
    return projection_ == nullptr ? absl::OkStatus()
                                  : projection_->BeginPass(pass);
  }

  absl::Status Forward(const Pass& pass, const void* x, void* y) override {
    SLUICE_RETURN_IF_ERROR(body_->Forward(pass, x));
    const void* beside = x;
    if (projection_ != nullptr) {
      SLUICE_RETURN_IF_ERROR(projection_->Forward(pass, x, y));
      beside = y;
    }
    return sum_outputs_->Run(pass.samples, body_->Output(x), beside, y);
  }

  // The projection lies behind the body in the flat vector, so it goes first.
  absl::Status Backward(const Pass& pass, const void* x, const void* y,
                        const void* dy, void* dx) override {
    const void* beside = dy;
    if (projection_ != nullptr) {
      SLUICE_RETURN_IF_ERROR(projection_->Backward(pass, x, nullptr, dy, dx));
      beside = dx;
    }
    SLUICE_ASSIGN_OR_RETURN(
        const void* through_body,
        body_->Backward(pass, x, dy, /*wants_dx=*/dx != nullptr));
    if (dx == nullptr) return absl::OkStatus();
    return sum_inputs_->Run(pass.samples, through_body, beside, dx);
  }

  ParameterRange parameters() const override {
    ParameterRange range = body_->parameters();
    if (projection_ == nullptr) return range;
    const ParameterRange last = projection_->parameters();
    return {range.size() == 0 ? last.begin : range.begin, last.end};
  }

 private:
  const std::unique_ptr<LayerStack> body_;
  const std::unique_ptr<Layer> projection_;
  const std::unique_ptr<kernels::SumOp> sum_outputs_;
  const std::unique_ptr<kernels::SumOp> sum_inputs_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Layer>> MakeResidual(const LayerContext& context,
                                                    const LayerPlan& layer,
                                                    bool relu) {
  SLUICE_ASSIGN_OR_RETURN(auto body, LayerStack::Create(context, layer.body));
  std::unique_ptr<Layer> projection;
  if (!layer.projection.empty()) {
    SLUICE_ASSIGN_OR_RETURN(projection,
                            MakeLayer(context, layer.projection[0]));
  }
  kernels::Device& device = *context.device;
  SLUICE_ASSIGN_OR_RETURN(
      auto outputs,
      device.Prepare(kernels::SumShape{SizeOf(layer.output_shape), relu},
                     context.max_samples));
  SLUICE_ASSIGN_OR_RETURN(
      auto inputs,
      device.Prepare(kernels::SumShape{SizeOf(layer.input_shape), false},
                     context.max_samples));
  return std::make_unique<Residual>(std::move(body), std::move(projection),
                                    std::move(outputs), std::move(inputs));
}

}  // namespace sluice
