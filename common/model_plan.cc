#include "common/model_plan.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/kind_planner.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// Repeats in repeats are written out, so the job file's size is no bound.
constexpr int kMaxLayers = 4096;

// "conv2d": what the field is called.
std::string KindName(const proto::Layer& layer) {
  const auto* field =
      proto::Layer::descriptor()->FindFieldByNumber(layer.kind_case());
  return field == nullptr ? "" : field->name();
}

// Plans one layer after the other; `plan_` holds what has been planned.
class Planner : private KindPlanner {
 public:
  explicit Planner(const std::vector<int64_t>& input_shape)
      : KindPlanner(input_shape) {}

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
  absl::Status Residual(LayerPlan* residual);
  absl::Status Project(const std::vector<int64_t>& from,
                       const std::vector<int64_t>& to, LayerPlan* residual);
  absl::Status ZeroLastGamma(const LayerPlan& residual);

  // Full names, to the layer's position in its list.
  absl::flat_hash_map<std::string, int> names_;
};

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
  if (ShapeProduct(shape_) < 0) {
    return Error(absl::StrCat("its output ", FormatShape(shape_),
                              " has more than ", kMaxFloats, " floats"));
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
  if (from.size() == to.size() && from.size() <= 2) {
    projection.mutable_dense()->set_units(to.back());
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
  return Error(absl::StrCat("no 1x1 projection takes its input ",
                            FormatShape(from), " to its layers' output ",
                            FormatShape(to)));
}

absl::StatusOr<ModelPlan> Planner::Finish() {
  if (plan_.tensors.empty()) {
    return absl::InvalidArgumentError(
        "model: expected a layer with weights (dense, conv2d), got none");
  }
  if (shape_.size() > 2) {
    return Error(absl::StrCat("the loss expects a flat output, got ",
                              FormatShape(shape_), "; put a flatten after it"));
  }
  return std::move(plan_);
}

}  // namespace

absl::StatusOr<ModelPlan> PlanModel(const proto::Model& model,
                                    const std::vector<int64_t>& input_shape) {
  if (input_shape.empty() || ShapeProduct(input_shape) < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("model: the input's sizes must be 1 or more, are ",
                     FormatShape(input_shape)));
  }
  Planner planner(input_shape);
  SLUICE_RETURN_IF_ERROR(planner.AddModel(model.layer()));
  return planner.Finish();
}

}  // namespace sluice
