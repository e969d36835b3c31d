#include "common/kind_planner.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"

namespace sluice {

std::string FormatShape(const std::vector<int64_t>& shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ", "), ")");
}

int64_t ShapeProduct(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (int64_t dimension : shape) {
    if (__builtin_mul_overflow(product, dimension, &product) ||
        product > kMaxFloats) {
      return -1;
    }
  }
  return product;
}

absl::Status KindPlanner::Error(absl::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat("layer ", current_.name, ": ", what));
}

absl::Status KindPlanner::AtLeastOne(absl::string_view field,
                                     int64_t value) const {
  if (value >= 1) return absl::OkStatus();
  return Error(absl::StrCat(field, " must be 1 or more, is ", value));
}

absl::Status KindPlanner::CheckImage() const {
  if (shape_.size() == 3) return absl::OkStatus();
  return Error(absl::StrCat("expected (channels, height, width), got ",
                            FormatShape(shape_)));
}

absl::Status KindPlanner::AddTensor(const std::string& suffix,
                                    const std::vector<int64_t>& shape,
                                    TensorInitializer initializer, bool decay) {
  TensorSpec tensor;
  tensor.name = absl::StrCat(current_.name, ".", suffix);
  tensor.shape = shape;
  tensor.offset = weights_;
  tensor.size = ShapeProduct(shape);
  if (tensor.size < 0 || weights_ + tensor.size > kMaxFloats) {
    return Error(absl::StrCat("with ", suffix, " ", FormatShape(shape),
                              " the model has more than ", kMaxFloats,
                              " weights"));
  }
  tensor.initializer = initializer;
  tensor.decay = decay;
  weights_ += tensor.size;
  plan_.tensors.push_back(std::move(tensor));
  return absl::OkStatus();
}

absl::Status KindPlanner::AddWeights(const std::vector<int64_t>& shape,
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

absl::Status KindPlanner::Dense(proto::Dense* dense) {
  if (shape_.size() > 2) {
    return Error(absl::StrCat("expected a flat input (features), got ",
                              FormatShape(shape_),
                              "; put a flatten before it"));
  }
  if (!dense->has_bias()) dense->set_bias(true);
  const int64_t units = dense->units();
  SLUICE_RETURN_IF_ERROR(AtLeastOne("dense.units", units));
  SLUICE_RETURN_IF_ERROR(AddWeights({units, shape_.back()}, shape_.back(),
                                    units, dense->bias(),
                                    dense->mutable_initializer()));
  shape_.back() = units;
  return absl::OkStatus();
}

absl::Status KindPlanner::Window(int64_t kernel, int64_t stride,
                                 int64_t padding) {
  SLUICE_RETURN_IF_ERROR(CheckImage());
  if (padding < 0) {
    return Error(absl::StrCat("padding must be 0 or more, is ", padding));
  }
  const std::vector<int64_t> input = shape_;
  for (int d : {1, 2}) {
    const int64_t padded = input[d] + 2 * padding;
    if (padded < kernel) {
      return Error(absl::StrCat("a kernel of ", kernel, " does not fit into ",
                                FormatShape(input), " with padding ", padding));
    }
    shape_[d] = (padded - kernel) / stride + 1;
  }
  return absl::OkStatus();
}

absl::Status KindPlanner::Conv2d(proto::Conv2d* conv) {
  if (!conv->has_stride()) conv->set_stride(1);
  if (!conv->has_padding()) conv->set_padding(0);
  if (!conv->has_bias()) conv->set_bias(true);
  SLUICE_RETURN_IF_ERROR(AtLeastOne("conv2d.channels", conv->channels()));
  SLUICE_RETURN_IF_ERROR(AtLeastOne("conv2d.kernel", conv->kernel()));
  SLUICE_RETURN_IF_ERROR(AtLeastOne("conv2d.stride", conv->stride()));
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

absl::Status KindPlanner::Pool(proto::Pool* pool) {
  if (!pool->has_stride()) pool->set_stride(pool->kernel());
  if (!pool->has_padding()) pool->set_padding(0);
  SLUICE_RETURN_IF_ERROR(AtLeastOne("kernel", pool->kernel()));
  SLUICE_RETURN_IF_ERROR(AtLeastOne("stride", pool->stride()));
  if (pool->padding() >= pool->kernel()) {
    return Error(absl::StrCat("padding must be below kernel, ", pool->kernel(),
                              ", is ", pool->padding()));
  }
  return Window(pool->kernel(), pool->stride(), pool->padding());
}

absl::Status KindPlanner::BatchNorm(proto::BatchNorm* norm) {
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

absl::Status KindPlanner::Embedding(proto::Embedding* embedding) {
  if (!embedding->has_vocabulary()) embedding->set_vocabulary(256);
  const int64_t features = embedding->features();
  SLUICE_RETURN_IF_ERROR(AtLeastOne("embedding.features", features));
  SLUICE_RETURN_IF_ERROR(
      AtLeastOne("embedding.vocabulary", embedding->vocabulary()));
  if (!first_ || shape_.size() != 1) {
    return Error(absl::StrCat(
        "must be the first layer of a model on bytes, (length); ",
        first_ ? "got " : "comes behind others, got ", FormatShape(shape_)));
  }
  // Of deviation 0.02.
  const TensorInitializer init = {.kind = TensorInitializer::Kind::kUniform,
                                  .limit = 0.02 * std::sqrt(3.0)};
  tokens_ = current_.weight = static_cast<int>(plan_.tensors.size());
  current_.bias = current_.weight + 1;
  plan_.vocabulary = embedding->vocabulary();
  SLUICE_RETURN_IF_ERROR(AddTensor("token", {embedding->vocabulary(), features},
                                   init,
                                   /*decay=*/true));
  SLUICE_RETURN_IF_ERROR(
      AddTensor("position", {shape_[0], features}, init, /*decay=*/true));
  shape_.push_back(features);
  return absl::OkStatus();
}

absl::Status KindPlanner::LayerNorm(proto::LayerNorm* norm) {
  if (!norm->has_epsilon()) norm->set_epsilon(1e-5);
  if (shape_.size() > 2) {
    return Error(absl::StrCat("expected (length, features) or (features), got ",
                              FormatShape(shape_)));
  }
  current_.weight = static_cast<int>(plan_.tensors.size());
  current_.bias = current_.weight + 1;
  const std::vector<int64_t> features = {shape_.back()};
  SLUICE_RETURN_IF_ERROR(
      AddTensor("gamma", features, {.value = 1}, /*decay=*/false));
  return AddTensor("beta", features, {.value = 0}, /*decay=*/false);
}

absl::Status KindPlanner::Attention(const proto::Attention& attention) {
  SLUICE_RETURN_IF_ERROR(AtLeastOne("attention.heads", attention.heads()));
  if (shape_.size() != 2 || shape_[1] % (3 * attention.heads()) != 0) {
    return Error(absl::StrCat(
        "expected (length, 3 x features), of which each of ", attention.heads(),
        " heads has as many, got ", FormatShape(shape_)));
  }
  shape_[1] /= 3;
  return absl::OkStatus();
}

absl::Status KindPlanner::TiedOutput() {
  if (tokens_ < 0) return Error("needs an embedding before it, there is none");
  if (plan_.tied_output) return Error("a model has at most one tied_output");
  const std::vector<int64_t>& table = plan_.tensors[tokens_].shape;
  if (shape_.size() != 2 || shape_[1] != table[1]) {
    return Error(absl::StrCat("expected (length, ", table[1],
                              "), the embedding's features, got ",
                              FormatShape(shape_)));
  }
  current_.weight = tokens_;
  plan_.tied_output = true;
  shape_[1] = table[0];
  return absl::OkStatus();
}

absl::Status KindPlanner::PlanKind() {
  SLUICE_RETURN_IF_ERROR(PlanByKind());
  first_ = false;
  return absl::OkStatus();
}

absl::Status KindPlanner::PlanByKind() {
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
      shape_ = {ShapeProduct(shape_)};
      return absl::OkStatus();
    case proto::Layer::kBatchNorm:
      return BatchNorm(current_.layer.mutable_batch_norm());
    case proto::Layer::kEmbedding:
      return Embedding(current_.layer.mutable_embedding());
    case proto::Layer::kLayerNorm:
      return LayerNorm(current_.layer.mutable_layer_norm());
    case proto::Layer::kAttention:
      return Attention(current_.layer.attention());
    case proto::Layer::kTiedOutput:
      return TiedOutput();
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

}  // namespace sluice
