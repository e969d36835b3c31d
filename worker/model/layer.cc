// A layer is an operation of the device and offsets into the flat vectors. Of a
// dense layer from 3 to 2 whose weight begins at float 10:
//
//   floats        10 .. 15      16 17
//   weights       w (2, 3)      b (2)       parameters() = [10, 18)
//   gradient      dw            db          final from 10 on behind Backward
//
// On a sequence of 5 places the same operation has 5 rows for each sample.
// Layers in files of their own: batch_norm.cc, residual.cc, sequence_layers.cc.
#include "worker/model/layer.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/random.h"
#include "common/status_macros.h"
#include "worker/model/layer_stack.h"
#include "worker/model/layers.h"

namespace sluice {
namespace {

using kernels::ActivationKind;
using kernels::Device;
using kernels::LinearOp;
using kernels::MapOp;
using kernels::PoolKind;

// Dense or conv2d.
class LinearLayer : public Layer {
 public:
  // `bias` is nullptr where the layer has none. A sample is `rows` of the
  // operation's.
  LinearLayer(std::unique_ptr<LinearOp> op, int64_t rows,
              const TensorSpec& weight, const TensorSpec* bias)
      : op_(std::move(op)),
        rows_(rows),
        weight_(weight.offset),
        bias_(bias == nullptr ? -1 : bias->offset),
        end_(bias == nullptr ? weight.offset + weight.size
                             : bias->offset + bias->size) {}

  absl::Status Forward(const Pass& pass, const void* x, void* y) override {
    return op_->Forward(pass.samples * rows_, x, pass.weights + weight_,
                        bias_ < 0 ? nullptr : pass.weights + bias_, y);
  }
  absl::Status Backward(const Pass& pass, const void* x, const void* y,
                        const void* dy, void* dx) override {
    SLUICE_RETURN_IF_ERROR(op_->Backward(
        pass.samples * rows_, x, pass.weights + weight_, dy, dx,
        pass.gradient + weight_, bias_ < 0 ? nullptr : pass.gradient + bias_));
    return pass.sink->FinalFrom(parameters().begin);
  }
  // The plan puts the bias right behind the weight.
  ParameterRange parameters() const override { return {weight_, end_}; }

 private:
  const std::unique_ptr<LinearOp> op_;
  const int64_t rows_;
  const int64_t weight_;
  const int64_t bias_;  // -1: none.
  const int64_t end_;
};

// Pooling, flatten or an activation.
class MapLayer : public Layer {
 public:
  MapLayer(std::unique_ptr<MapOp> op, bool is_activation)
      : op_(std::move(op)), is_activation_(is_activation) {}

  absl::Status Forward(const Pass& pass, const void* x, void* y) override {
    return op_->Forward(pass.samples, x, y);
  }
  absl::Status Backward(const Pass& pass, const void* x, const void* y,
                        const void* dy, void* dx) override {
    return dx == nullptr ? absl::OkStatus()
                         : op_->Backward(pass.samples, x, y, dy, dx);
  }
  bool is_activation() const override { return is_activation_; }

 private:
  const std::unique_ptr<MapOp> op_;
  const bool is_activation_;
};

class DropoutLayer : public Layer {
 public:
  // `random` has one number for each mini-batch, which keys what is dropped.
  DropoutLayer(std::unique_ptr<kernels::DropoutOp> op, const Random& random)
      : op_(std::move(op)), random_(random) {}

  absl::Status BeginPass(const Pass& pass) override {
    if (!pass.batch.has_value()) return op_->SetDraw(std::nullopt);
    return op_->SetDraw(kernels::DropoutOp::Draw{
        random_.Uint64(pass.batch->value()), pass.first});
  }
  absl::Status Forward(const Pass& pass, const void* x, void* y) override {
    return op_->Run(pass.samples, x, y);
  }
  absl::Status Backward(const Pass& pass, const void* x, const void* y,
                        const void* dy, void* dx) override {
    return dx == nullptr ? absl::OkStatus() : op_->Run(pass.samples, dy, dx);
  }
  bool is_activation() const override { return true; }

 private:
  const std::unique_ptr<kernels::DropoutOp> op_;
  const Random random_;
};

absl::StatusOr<std::unique_ptr<Layer>> Dropout(const LayerContext& context,
                                               const LayerPlan& layer) {
  const ImageShape in = ImageShapeOf(layer.input_shape);
  const kernels::DropoutShape shape = {in.channels, in.pixels,
                                       layer.layer.dropout().rate()};
  SLUICE_ASSIGN_OR_RETURN(auto op,
                          context.device->Prepare(shape, context.max_samples));
  return std::make_unique<DropoutLayer>(
      std::move(op),
      Random(context.seed, absl::StrCat("dropout ", layer.name)));
}

absl::StatusOr<std::unique_ptr<Layer>> Linear(
    absl::StatusOr<std::unique_ptr<LinearOp>> op, int64_t rows,
    const ModelPlan& plan, const LayerPlan& layer) {
  SLUICE_RETURN_IF_ERROR(op.status());
  return std::make_unique<LinearLayer>(
      *std::move(op), rows, plan.tensors[layer.weight],
      layer.bias < 0 ? nullptr : &plan.tensors[layer.bias]);
}

absl::StatusOr<std::unique_ptr<Layer>> Map(
    absl::StatusOr<std::unique_ptr<MapOp>> op, bool is_activation = false) {
  SLUICE_RETURN_IF_ERROR(op.status());
  return std::make_unique<MapLayer>(*std::move(op), is_activation);
}

// Gelu's backward looks at x, so it is none that may run in place.
absl::StatusOr<std::unique_ptr<Layer>> Activation(const LayerContext& context,
                                                  const LayerPlan& layer,
                                                  ActivationKind kind) {
  const kernels::ActivationShape shape = {kind, SizeOf(layer.input_shape)};
  return Map(context.device->Prepare(shape, context.max_samples),
             /*is_activation=*/kind != ActivationKind::kGelu);
}

kernels::Conv2dShape ConvShape(const LayerPlan& layer, bool relu) {
  const proto::Conv2d& conv = layer.layer.conv2d();
  kernels::Conv2dShape shape;
  shape.inputs = layer.input_shape[0];
  shape.height = layer.input_shape[1];
  shape.width = layer.input_shape[2];
  shape.outputs = conv.channels();
  shape.kernel = conv.kernel();
  shape.stride = conv.stride();
  shape.padding = conv.padding();
  shape.bias = layer.bias >= 0;
  shape.relu = relu;
  return shape;
}

kernels::PoolShape PoolShape(const LayerPlan& layer, PoolKind kind,
                             const proto::Pool& pool) {
  kernels::PoolShape shape;
  shape.kind = kind;
  shape.channels = layer.input_shape[0];
  shape.height = layer.input_shape[1];
  shape.width = layer.input_shape[2];
  shape.kernel = pool.kernel();
  shape.stride = pool.stride();
  shape.padding = pool.padding();
  return shape;
}

kernels::LayerNormShape LayerNormShape(const LayerPlan& layer) {
  kernels::LayerNormShape shape;
  shape.features = layer.input_shape.back();
  shape.rows = SizeOf(layer.input_shape) / shape.features;
  shape.epsilon = layer.layer.layer_norm().epsilon();
  return shape;
}

kernels::LayerNormShape GroupNormShape(const LayerPlan& layer) {
  const ImageShape in = ImageShapeOf(layer.input_shape);
  kernels::LayerNormShape shape;
  shape.features = in.channels;
  shape.pixels = in.pixels;
  shape.groups = layer.layer.group_norm().groups();
  shape.epsilon = layer.layer.group_norm().epsilon();
  return shape;
}

kernels::AttentionShape AttentionShape(const LayerPlan& layer) {
  const int64_t heads = layer.layer.attention().heads();
  return {layer.input_shape[0], heads, layer.output_shape[1] / heads};
}

absl::StatusOr<std::unique_ptr<Layer>> Flatten(const LayerContext& context,
                                               const LayerPlan& layer) {
  const ImageShape in = ImageShapeOf(layer.input_shape);
  const kernels::FlattenShape shape = {in.channels, in.pixels};
  SLUICE_ASSIGN_OR_RETURN(auto op,
                          context.device->Prepare(shape, context.max_samples));
  if (op == nullptr) return nullptr;
  return Map(std::move(op));
}

absl::StatusOr<std::unique_ptr<Layer>> Make(const LayerContext& context,
                                            const LayerPlan& layer, bool relu) {
  const ModelPlan& plan = context.plan;
  Device* const device = context.device;
  const int64_t n = context.max_samples;
  const proto::Layer& p = layer.layer;
  switch (p.kind_case()) {
    case proto::Layer::kDense: {
      const kernels::DenseShape shape{layer.input_shape.back(),
                                      layer.output_shape.back(),
                                      layer.bias >= 0, relu};
      const int64_t rows = SizeOf(layer.input_shape) / shape.inputs;
      return Linear(device->Prepare(shape, n * rows), rows, plan, layer);
    }
    case proto::Layer::kConv2D:
      return Linear(device->Prepare(ConvShape(layer, relu), n), /*rows=*/1,
                    plan, layer);
    case proto::Layer::kMaxPool:
      return Map(
          device->Prepare(PoolShape(layer, PoolKind::kMax, p.max_pool()), n));
    case proto::Layer::kAveragePool:
      return Map(device->Prepare(
          PoolShape(layer, PoolKind::kAverage, p.average_pool()), n));
    case proto::Layer::kRelu:
      return Activation(context, layer, ActivationKind::kRelu);
    case proto::Layer::kTanh:
      return Activation(context, layer, ActivationKind::kTanh);
    case proto::Layer::kSigmoid:
      return Activation(context, layer, ActivationKind::kSigmoid);
    case proto::Layer::kGelu:
      return Activation(context, layer, ActivationKind::kGelu);
    case proto::Layer::kGlobalAveragePool: {
      const ImageShape in = ImageShapeOf(layer.input_shape);
      return Map(device->Prepare(
          kernels::GlobalAveragePoolShape{in.channels, in.pixels}, n));
    }
    case proto::Layer::kBatchNorm:
      return MakeBatchNorm(context, layer, relu);
    case proto::Layer::kEmbedding:
      return MakeEmbedding(context, layer);
    case proto::Layer::kLayerNorm:
      return MakeLayerNorm(context, layer, LayerNormShape(layer));
    case proto::Layer::kGroupNorm:
      return MakeLayerNorm(context, layer, GroupNormShape(layer));
    case proto::Layer::kAttention:
      return Map(device->Prepare(AttentionShape(layer), n));
    case proto::Layer::kTiedOutput:
      return MakeTiedOutput(context, layer);
    case proto::Layer::kDropout:
      return Dropout(context, layer);
    case proto::Layer::kResidual:
      return MakeResidual(context, layer, relu);
    case proto::Layer::kFlatten:
      return Flatten(context, layer);
    case proto::Layer::kRepeat:  // The plan has its layers in its place.
    case proto::Layer::KIND_NOT_SET:
      break;
  }
  return absl::InternalError("no operation belongs to this kind of layer");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Layer>> MakeLayer(const LayerContext& context,
                                                 const LayerPlan& layer,
                                                 bool relu) {
  auto made = Make(context, layer, relu);
  // A residual's layers have already said who they are.
  if (made.ok() || layer.layer.has_residual()) return made;
  return absl::Status(
      made.status().code(),
      absl::StrCat("layer ", layer.name, ": ", made.status().message()));
}

}  // namespace sluice
