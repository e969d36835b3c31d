#include "common/model_plan.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// Activations of one sample and all weights stay below this many floats
// (4 TiB): far above any machine, far below an overflow of the sums here.
constexpr int64_t kMaxFloats = int64_t{1} << 40;

// Repeats in repeats are written out, so the job file's size is no bound.
constexpr int kMaxLayers = 4096;

std::string Format(const std::vector<int64_t>& shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ", "), ")");
}

// The product of `shape`, or -1 when it is above kMaxFloats.
int64_t Product(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (int64_t dimension : shape) {
    if (__builtin_mul_overflow(product, dimension, &product) ||
        product > kMaxFloats) {
      return -1;
    }
  }
  return product;
}

// "conv2d": what the field is called.
std::string KindName(const proto::Layer& layer) {
  const auto* field =
      proto::Layer::descriptor()->FindFieldByNumber(layer.kind_case());
  return field == nullptr ? "" : field->name();
}

// Plans one layer after the other; `plan_` holds what has been planned.
class Planner {
 public:
  explicit Planner(const std::vector<int64_t>& input_shape) {
    plan_.input_shape = input_shape;
    shape_ = input_shape;
  }

  using Layers = google::protobuf::RepeatedPtrField<proto::Layer>;

  // Plans `layers` behind what has been planned.
  absl::Status AddModel(const Layers& layers) {
    return AddAll(layers, "", &plan_.layers);
  }
  absl::StatusOr<ModelPlan> Finish();

 private:
  // Plans layers and puts them at the end of `to`; names begin with `prefix`.
  absl::Status AddAll(const Layers& layers, const std::string& prefix,
                      std::vector<LayerPlan>* to);
  absl::Status Add(const proto::Layer& layer, const std::string& prefix,
                   int position, std::vector<LayerPlan>* to);
  // Shapes and tensors of `current_`, which holds no other layers.
  absl::Status PlanKind();
  absl::Status Residual(LayerPlan* residual);
  absl::Status Project(const std::vector<int64_t>& from,
                       const std::vector<int64_t>& to, LayerPlan* residual);
  absl::Status Dense(proto::Dense* dense);
  absl::Status Conv2d(proto::Conv2d* conv);
  absl::Status Pool(proto::Pool* pool);
  absl::Status BatchNorm(proto::BatchNorm* norm);
  absl::Status ZeroLastGamma(const LayerPlan& residual);

  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("layer ", current_.name, ": ", what));
  }
  // OK when a size that the job gives is at least 1.
  absl::Status AtLeastOne(absl::string_view field, int64_t value) const {
    if (value >= 1) return absl::OkStatus();
    return Error(absl::StrCat(field, " must be 1 or more, is ", value));
  }
  absl::Status CheckImage() const {
    if (shape_.size() == 3) return absl::OkStatus();
    return Error(absl::StrCat("expected (channels, height, width), got ",
                              Format(shape_)));
  }
  absl::Status Window(int64_t kernel, int64_t stride, int64_t padding);
  absl::Status AddWeights(const std::vector<int64_t>& shape, int64_t fan_in,
                          int64_t fan_out, bool bias,
                          proto::Initializer* initializer);
  absl::Status AddTensor(const std::string& suffix,
                         const std::vector<int64_t>& shape,
                         TensorInitializer initializer, bool decay);

  ModelPlan plan_;
  std::vector<int64_t> shape_;  // Output of what has been planned.
  int64_t weights_ = 0;         // Floats in plan_.tensors.
  LayerPlan current_;
  // Full names, to the layer's position in its list.
  absl::flat_hash_map<std::string, int> names_;
};

absl::Status Planner::AddTensor(const std::string& suffix,
                                const std::vector<int64_t>& shape,
                                TensorInitializer initializer, bool decay) {
  TensorSpec tensor;
  tensor.name = absl::StrCat(current_.name, ".", suffix);
  tensor.shape = shape;
  tensor.offset = weights_;
  tensor.size = Product(shape);
  if (tensor.size < 0 || weights_ + tensor.size > kMaxFloats) {
    return Error(absl::StrCat("with ", suffix, " ", Format(shape),
                              " the model has more than ", kMaxFloats,
                              " weights"));
  }
  tensor.initializer = initializer;
  tensor.decay = decay;
  weights_ += tensor.size;
  plan_.tensors.push_back(std::move(tensor));
  return absl::OkStatus();
}

absl::Status Planner::AddWeights(const std::vector<int64_t>& shape,
                                 int64_t fan_in, int64_t fan_out, bool bias,
                                 proto::Initializer* initializer) {
  using Kind = TensorInitializer::Kind;
  TensorInitializer init;
  init.kind = Kind::kUniform;
  switch (initializer->kind()) {
    case proto::Initializer::XAVIER:
      init.limit = std::sqrt(6.0 / static_cast<double>(fan_in + fan_out));
      break;
    case proto::Initializer::CONSTANT:
      init.kind = Kind::kConstant;
      init.value = initializer->value();
      break;
    default:
      initializer->set_kind(proto::Initializer::HE);
      init.limit = std::sqrt(6.0 / static_cast<double>(fan_in));
  }
  initializer->set_value(initializer->value());
  current_.weight = static_cast<int>(plan_.tensors.size());
  SLUICE_RETURN_IF_ERROR(AddTensor("weight", shape, init, /*decay=*/true));
  if (!bias) return absl::OkStatus();
  current_.bias = static_cast<int>(plan_.tensors.size());
  return AddTensor("bias", {shape[0]}, TensorInitializer(), /*decay=*/false);
}

absl::Status Planner::Dense(proto::Dense* dense) {
  if (shape_.size() != 1) {
    return Error(absl::StrCat("expected a flat input (features), got ",
                              Format(shape_), "; put a flatten before it"));
  }
  if (!dense->has_bias()) dense->set_bias(true);
  const int64_t units = dense->units();
  SLUICE_RETURN_IF_ERROR(AtLeastOne("dense.units", units));
  SLUICE_RETURN_IF_ERROR(AddWeights({units, shape_[0]}, shape_[0], units,
                                    dense->bias(),
                                    dense->mutable_initializer()));
  shape_ = {units};
  return absl::OkStatus();
}

// The output of windows over an image: height and width of `shape_`.
absl::Status Planner::Window(int64_t kernel, int64_t stride, int64_t padding) {
  SLUICE_RETURN_IF_ERROR(CheckImage());
  const std::vector<int64_t> input = shape_;
  for (int d : {1, 2}) {
    const int64_t padded = input[d] + 2 * padding;
    if (padded < kernel) {
      return Error(absl::StrCat("a kernel of ", kernel, " does not fit into ",
                                Format(input), " with padding ", padding));
    }
    shape_[d] = (padded - kernel) / stride + 1;
  }
  return absl::OkStatus();
}

absl::Status Planner::Conv2d(proto::Conv2d* conv) {
  if (!conv->has_stride()) conv->set_stride(1);
  if (!conv->has_padding()) conv->set_padding(0);
  if (!conv->has_bias()) conv->set_bias(true);
  SLUICE_RETURN_IF_ERROR(AtLeastOne("conv2d.channels", conv->channels()));
  SLUICE_RETURN_IF_ERROR(AtLeastOne("conv2d.kernel", conv->kernel()));
  SLUICE_RETURN_IF_ERROR(AtLeastOne("conv2d.stride", conv->stride()));
  if (conv->padding() < 0) {
    return Error(
        absl::StrCat("conv2d.padding must be 0 or more, is ", conv->padding()));
  }
  SLUICE_RETURN_IF_ERROR(
      Window(conv->kernel(), conv->stride(), conv->padding()));
  const int64_t side = conv->kernel();
  const double window = static_cast<double>(side) * side;
  const double most = static_cast<double>(kMaxFloats);
  if (window * shape_[0] > most || window * conv->channels() > most) {
    return Error(absl::StrCat("a kernel of ", side, " is too large"));
  }
  SLUICE_RETURN_IF_ERROR(AddWeights({conv->channels(), shape_[0], side, side},
                                    shape_[0] * side * side,
                                    conv->channels() * side * side,
                                    conv->bias(), conv->mutable_initializer()));
  shape_[0] = conv->channels();
  return absl::OkStatus();
}

absl::Status Planner::Pool(proto::Pool* pool) {
  if (!pool->has_stride()) pool->set_stride(pool->kernel());
  SLUICE_RETURN_IF_ERROR(AtLeastOne("kernel", pool->kernel()));
  SLUICE_RETURN_IF_ERROR(AtLeastOne("stride", pool->stride()));
  return Window(pool->kernel(), pool->stride(), /*padding=*/0);
}

absl::Status Planner::BatchNorm(proto::BatchNorm* norm) {
  if (shape_.size() != 1) SLUICE_RETURN_IF_ERROR(CheckImage());
  if (!norm->has_momentum()) norm->set_momentum(0.1);
  if (!norm->has_epsilon()) norm->set_epsilon(1e-5);
  const int first = static_cast<int>(plan_.tensors.size());
  current_.weight = first;
  current_.bias = first + 1;
  current_.running_mean = first + 2;
  current_.running_variance = first + 3;
  const auto add = [&](const std::string& suffix, double start) {
    return AddTensor(suffix, {shape_[0]}, {.value = start}, /*decay=*/false);
  };
  SLUICE_RETURN_IF_ERROR(add("gamma", 1));
  SLUICE_RETURN_IF_ERROR(add("beta", 0));
  SLUICE_RETURN_IF_ERROR(add("running_mean", 0));
  SLUICE_RETURN_IF_ERROR(add("running_variance", 1));
  plan_.tensors[first + 2].moving_average = norm->momentum();
  plan_.tensors[first + 3].moving_average = norm->momentum();
  return absl::OkStatus();
}

absl::Status Planner::ZeroLastGamma(const LayerPlan& residual) {
  for (auto layer = residual.body.rbegin(); layer != residual.body.rend();
       ++layer) {
    if (!layer->layer.has_batch_norm()) continue;
    plan_.tensors[layer->weight].initializer.value = 0;
    return absl::OkStatus();
  }
  current_ = residual;
  return Error("zero_init_last_gamma needs a batch_norm among its layers");
}

absl::Status Planner::AddAll(const Layers& layers, const std::string& prefix,
                             std::vector<LayerPlan>* to) {
  for (int i = 0; i < layers.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(Add(layers[i], prefix, i, to));
  }
  return absl::OkStatus();
}

absl::Status Planner::Add(const proto::Layer& layer, const std::string& prefix,
                          int position, std::vector<LayerPlan>* to) {
  current_ = LayerPlan();
  current_.layer = layer;
  current_.name = layer.name().empty() ? absl::StrCat(KindName(layer), position)
                                       : layer.name();
  current_.name = absl::StrCat(prefix, current_.name);
  current_.layer.set_name(current_.name);
  current_.input_shape = shape_;
  auto [taken, is_new] = names_.emplace(current_.name, position);
  if (!is_new) {
    return Error(absl::StrCat("layers ", taken->second, " and ", position,
                              " have the same name"));
  }
  if (names_.size() > kMaxLayers) {
    return Error(
        absl::StrCat("the model has more than ", kMaxLayers, " layers"));
  }
  if (layer.has_repeat()) {
    const std::string name = current_.name;
    for (int i = 0; i < layer.repeat().times(); ++i) {
      SLUICE_RETURN_IF_ERROR(
          AddAll(layer.repeat().layer(), absl::StrCat(name, ".", i, "."), to));
    }
    return absl::OkStatus();
  }
  if (layer.has_residual()) {
    LayerPlan residual = current_;
    SLUICE_RETURN_IF_ERROR(Residual(&residual));
    current_ = std::move(residual);
  } else {
    SLUICE_RETURN_IF_ERROR(PlanKind());
  }
  if (Product(shape_) < 0) {
    return Error(absl::StrCat("its output ", Format(shape_), " has more than ",
                              kMaxFloats, " floats"));
  }
  current_.output_shape = shape_;
  to->push_back(current_);
  return absl::OkStatus();
}

absl::Status Planner::Residual(LayerPlan* residual) {
  SLUICE_RETURN_IF_ERROR(AddAll(residual->layer.residual().layer(),
                                residual->name + ".", &residual->body));
  if (residual->layer.residual().zero_init_last_gamma()) {
    SLUICE_RETURN_IF_ERROR(ZeroLastGamma(*residual));
  }
  const std::vector<int64_t> output = shape_;
  if (output == residual->input_shape) return absl::OkStatus();
  return Project(residual->input_shape, output, residual);
}

absl::Status Planner::Project(const std::vector<int64_t>& from,
                              const std::vector<int64_t>& to,
                              LayerPlan* residual) {
  proto::Layer projection;
  projection.set_name("projection");
  if (from.size() == 1 && to.size() == 1) {
    projection.mutable_dense()->set_units(to[0]);
    projection.mutable_dense()->set_bias(false);
  } else if (from.size() == 3 && to.size() == 3) {
    proto::Conv2d* conv = projection.mutable_conv2d();
    conv->set_channels(to[0]);
    conv->set_kernel(1);
    conv->set_stride((from[1] + to[1] - 1) / to[1]);
    conv->set_bias(false);
  }
  shape_ = from;
  if (projection.kind_case() != proto::Layer::KIND_NOT_SET) {
    SLUICE_RETURN_IF_ERROR(
        Add(projection, residual->name + ".", 0, &residual->projection));
  }
  if (shape_ == to) return absl::OkStatus();
  current_ = *residual;
  return Error(absl::StrCat("no 1x1 projection takes its input ", Format(from),
                            " to its layers' output ", Format(to)));
}

absl::Status Planner::PlanKind() {
  switch (current_.layer.kind_case()) {
    case proto::Layer::kDense:
      return Dense(current_.layer.mutable_dense());
    case proto::Layer::kConv2D:
      return Conv2d(current_.layer.mutable_conv2d());
    case proto::Layer::kMaxPool:
      return Pool(current_.layer.mutable_max_pool());
    case proto::Layer::kAveragePool:
      return Pool(current_.layer.mutable_average_pool());
    case proto::Layer::kGlobalAveragePool:
      SLUICE_RETURN_IF_ERROR(CheckImage());
      shape_.resize(1);
      return absl::OkStatus();
    case proto::Layer::kFlatten:
      shape_ = {Product(shape_)};
      return absl::OkStatus();
    case proto::Layer::kBatchNorm:
      return BatchNorm(current_.layer.mutable_batch_norm());
    case proto::Layer::kDropout:
      if (!current_.layer.dropout().has_rate()) {
        current_.layer.mutable_dropout()->set_rate(0.5);
      }
      return absl::OkStatus();
    case proto::Layer::kRelu:
    case proto::Layer::kTanh:
    case proto::Layer::kGelu:
    case proto::Layer::kSigmoid:
      return absl::OkStatus();
    case proto::Layer::kResidual:
    case proto::Layer::kRepeat:
    case proto::Layer::KIND_NOT_SET:
      break;
  }
  return Error("expected a kind of layer, got none");
}

absl::StatusOr<ModelPlan> Planner::Finish() {
  if (plan_.tensors.empty()) {
    return absl::InvalidArgumentError(
        "model: expected a layer with weights (dense, conv2d), got none");
  }
  if (shape_.size() != 1) {
    return Error(absl::StrCat("the loss expects a flat output, got ",
                              Format(shape_), "; put a flatten after it"));
  }
  return std::move(plan_);
}

}  // namespace

absl::StatusOr<ModelPlan> PlanModel(const proto::Model& model,
                                    const std::vector<int64_t>& input_shape) {
  if (input_shape.empty() || Product(input_shape) < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("model: the input's sizes must be 1 or more, are ",
                     Format(input_shape)));
  }
  Planner planner(input_shape);
  SLUICE_RETURN_IF_ERROR(planner.AddModel(model.layer()));
  return planner.Finish();
}

}  // namespace sluice
