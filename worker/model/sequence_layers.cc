// A tied output has no parameters of its own: its weights are the embedding's
// tokens, which lie at the vector's beginning and are there before it runs. In
// backward it comes before the embedding, which is the first layer. It writes
// its part of the tokens' gradient and says nothing; the embedding adds its own
// part, and then they are final:
//
//   backward of tied_output    token gradient = its part
//   ... the layers between     FinalFrom, from the end down
//   backward of embedding      token gradient += its part; FinalFrom(0)
#include <utility>

#include "common/status_macros.h"
#include "worker/model/layer_stack.h"
#include "worker/model/layers.h"

namespace sluice {
namespace {

class Embedding : public Layer {
 public:
  Embedding(std::unique_ptr<kernels::EmbeddingOp> op, const ModelPlan& plan,
            const LayerPlan& layer)
      : op_(std::move(op)),
        tied_(plan.tied_output),
        token_(plan.tensors[layer.weight].offset),
        position_(plan.tensors[layer.bias].offset),
        end_(position_ + plan.tensors[layer.bias].size) {}

  absl::Status Forward(const Pass& pass, const void* x, void* y) override {
    return op_->Forward(pass.samples, Inputs(x), pass.weights + token_,
                        pass.weights + position_, y);
  }
  absl::Status Backward(const Pass& pass, const void* x, const void* y,
                        const void* dy, void* dx) override {
    SLUICE_CHECK(dx == nullptr);  // Nothing comes before it.
    SLUICE_RETURN_IF_ERROR(op_->Backward(pass.samples, Inputs(x), dy,
                                         /*add=*/tied_, pass.gradient + token_,
                                         pass.gradient + position_));
    return pass.sink->FinalFrom(parameters().begin);
  }
  // The plan puts the positions right behind the tokens.
  ParameterRange parameters() const override { return {token_, end_}; }

 private:
  static const float* Inputs(const void* x) {
    return static_cast<const float*>(x);
  }

  const std::unique_ptr<kernels::EmbeddingOp> op_;
  const bool tied_;
  // Floats from the start of the flat vector.
  const int64_t token_, position_, end_;
};

class LayerNorm : public Layer {
 public:
  LayerNorm(std::unique_ptr<kernels::LayerNormOp> op, const ModelPlan& plan,
            const LayerPlan& layer)
      : op_(std::move(op)),
        gamma_(plan.tensors[layer.weight].offset),
        beta_(plan.tensors[layer.bias].offset),
        end_(beta_ + plan.tensors[layer.bias].size) {}

  absl::Status Forward(const Pass& pass, const void* x, void* y) override {
    return op_->Forward(pass.samples, x, pass.weights + gamma_,
                        pass.weights + beta_, y);
  }
  absl::Status Backward(const Pass& pass, const void* x, const void* y,
                        const void* dy, void* dx) override {
    SLUICE_RETURN_IF_ERROR(op_->Backward(pass.samples, x, pass.weights + gamma_,
                                         dy, dx, pass.gradient + gamma_,
                                         pass.gradient + beta_));
    return pass.sink->FinalFrom(parameters().begin);
  }
  // The plan puts beta right behind gamma.
  ParameterRange parameters() const override { return {gamma_, end_}; }

 private:
  const std::unique_ptr<kernels::LayerNormOp> op_;
  const int64_t gamma_, beta_, end_;
};

class TiedOutput : public Layer {
 public:
  TiedOutput(std::unique_ptr<kernels::LinearOp> op, int64_t places,
             const TensorSpec& token)
      : op_(std::move(op)), places_(places), token_(token.offset) {}

  absl::Status Forward(const Pass& pass, const void* x, void* y) override {
    return op_->Forward(pass.samples * places_, x, Tokens(pass), nullptr, y);
  }
  absl::Status Backward(const Pass& pass, const void* x, const void* y,
                        const void* dy, void* dx) override {
    float* const gradient = pass.tokens_gradient != nullptr
                                ? pass.tokens_gradient
                                : pass.gradient + token_;
    return op_->Backward(pass.samples * places_, x, Tokens(pass), dy, dx,
                         gradient, nullptr);
  }

 private:
  const float* Tokens(const Pass& pass) const {
    return pass.tokens != nullptr ? pass.tokens : pass.weights + token_;
  }

  const std::unique_ptr<kernels::LinearOp> op_;
  const int64_t places_;  // Of a sample.
  const int64_t token_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Layer>> MakeEmbedding(
    const LayerContext& context, const LayerPlan& layer) {
  const proto::Embedding& embedding = layer.layer.embedding();
  const kernels::EmbeddingShape shape = {
      layer.input_shape[0], embedding.vocabulary(), embedding.features()};
  SLUICE_ASSIGN_OR_RETURN(auto op,
                          context.device->Prepare(shape, context.max_samples));
  return std::make_unique<Embedding>(std::move(op), context.plan, layer);
}

absl::StatusOr<std::unique_ptr<Layer>> MakeLayerNorm(
    const LayerContext& context, const LayerPlan& layer,
    const kernels::LayerNormShape& shape) {
  SLUICE_ASSIGN_OR_RETURN(auto op,
                          context.device->Prepare(shape, context.max_samples));
  return std::make_unique<LayerNorm>(std::move(op), context.plan, layer);
}

absl::StatusOr<std::unique_ptr<Layer>> MakeTiedOutput(
    const LayerContext& context, const LayerPlan& layer) {
  const int64_t places = layer.input_shape[0];
  const kernels::DenseShape shape = {layer.input_shape[1],
                                     layer.output_shape[1], /*bias=*/false};
  SLUICE_ASSIGN_OR_RETURN(
      auto op, context.device->Prepare(shape, context.max_samples * places));
  return std::make_unique<TiedOutput>(std::move(op), places,
                                      context.plan.tensors[layer.weight]);
}

}  // namespace sluice
