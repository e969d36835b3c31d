// Each layer takes the shape that the one before it leaves, and puts its
// tensors behind those that are there. An image (3, 32, 32) through three
// layers:
//
//   conv2d, 16 channels,   (16, 16, 16)   weight (16, 3, 3, 3)   0 to 431
//   kernel 3, stride 2,                   bias (16)              432 to 447
//   padding 1
//   flatten                (4096)
//   dense, 10 units        (10)           weight (10, 4096)      448 to 41407
//                                         bias (10)              41408 to 41417
//
// Every process infers this from the job alone and gets the same offsets.
#include "common/layers/shape_inference.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// Repeats in repeats are written out, so the job file's size is no bound.
constexpr int kMaxLayers = 4096;

}  // namespace

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

absl::Status LayerError(const LayerPlan& layer, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("layer ", layer.name, ": ", what));
}

absl::Status AtLeastOne(const LayerPlan& layer, absl::string_view field,
                        int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return LayerError(layer,
                    absl::StrCat(field, " must be 1 or more, is ", value));
}

absl::Status CheckImage(const LayerPlan& layer) {
  if (layer.input_shape.size() == 3) return absl::OkStatus();
  return LayerError(layer,
                    absl::StrCat("expected (channels, height, width), ", "got ",
                                 FormatShape(layer.input_shape)));
}

absl::Status InferWindows(int64_t kernel, int64_t stride, int64_t padding,
                          LayerPlan* layer) {
  SLUICE_RETURN_IF_ERROR(CheckImage(*layer));
  if (padding < 0) {
    return LayerError(*layer,
                      absl::StrCat("padding must be 0 or more, is ", padding));
  }
  for (int d : {1, 2}) {
    const int64_t padded = layer->input_shape[d] + 2 * padding;
    if (padded < kernel) {
      return LayerError(
          *layer, absl::StrCat("a kernel of ", kernel, " does not fit into ",
                               FormatShape(layer->input_shape),
                               " with padding ", padding));
    }
    layer->output_shape[d] = (padded - kernel) / stride + 1;
  }
  return absl::OkStatus();
}

absl::Status ShapeInference::AddLayers(const Layers& layers,
                                       const std::string& prefix,
                                       std::vector<int64_t>* shape,
                                       std::vector<LayerPlan>* to) {
  for (int i = 0; i < layers.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(AddLayer(layers[i], prefix, i, shape, to));
  }
  return absl::OkStatus();
}

absl::Status ShapeInference::AddLayer(const proto::Layer& layer,
                                      const std::string& prefix, int position,
                                      std::vector<int64_t>* shape,
                                      std::vector<LayerPlan>* to) {
  LayerPlan plan;
  plan.name = layer.name().empty() ? absl::StrCat(prefix, position)
                                   : absl::StrCat(prefix, layer.name());
  plan.layer = layer;
  plan.layer.set_name(plan.name);
  plan.input_shape = plan.output_shape = *shape;
  const auto [taken, is_new] = names_.emplace(plan.name, position);
  if (!is_new) {
    return LayerError(plan, absl::StrCat("layers ", taken->second, " and ",
                                         position, " have the same name"));
  }
  if (names_.size() > kMaxLayers) {
    return LayerError(
        plan, absl::StrCat("the model has more than ", kMaxLayers, " layers"));
  }
  const LayerKind* kind = KindOf(layer);
  if (kind == nullptr) {
    return LayerError(plan, "expected a kind of layer, got none");
  }
  SLUICE_RETURN_IF_ERROR(kind->infer(&plan, this));
  is_first_ = false;
  if (ShapeProduct(plan.output_shape) < 0) {
    return LayerError(
        plan, absl::StrCat("its output ", FormatShape(plan.output_shape),
                           " has more than ", kMaxFloats, " floats"));
  }
  *shape = plan.output_shape;
  if (layer.has_repeat()) {  // Its layers stand in its place.
    std::move(plan.body.begin(), plan.body.end(), std::back_inserter(*to));
  } else {
    to->push_back(std::move(plan));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> ShapeInference::AddTensor(const LayerPlan& layer,
                                              const std::string& suffix,
                                              const std::vector<int64_t>& shape,
                                              TensorInitializer initializer,
                                              bool decay) {
  TensorSpec tensor;
  tensor.name = absl::StrCat(layer.name, ".", suffix);
  tensor.shape = shape;
  tensor.offset = weights_;
  tensor.size = ShapeProduct(shape);
  if (tensor.size < 0 || weights_ + tensor.size > kMaxFloats) {
    return LayerError(
        layer,
        absl::StrCat("with ", suffix, " ", FormatShape(shape),
                     " the model has more than ", kMaxFloats, " weights"));
  }
  tensor.initializer = initializer;
  tensor.factors.decay = decay ? 1 : 0;
  weights_ += tensor.size;
  plan_.tensors.push_back(std::move(tensor));
  return static_cast<int>(plan_.tensors.size()) - 1;
}

absl::Status ShapeInference::AddGammaAndBeta(int64_t channels,
                                             LayerPlan* layer) {
  SLUICE_ASSIGN_OR_RETURN(
      layer->weight,
      AddTensor(*layer, "gamma", {channels}, {.value = 1}, /*decay=*/false));
  SLUICE_ASSIGN_OR_RETURN(
      layer->bias,
      AddTensor(*layer, "beta", {channels}, {.value = 0}, /*decay=*/false));
  return absl::OkStatus();
}

}  // namespace sluice
