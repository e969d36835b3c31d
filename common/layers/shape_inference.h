#ifndef SLUICE_COMMON_LAYERS_SHAPE_INFERENCE_H_
#define SLUICE_COMMON_LAYERS_SHAPE_INFERENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/layers/layer_kind.h"
#include "common/layers/model_plan.h"

namespace sluice {

// Activations of one sample and all weights stay below this many floats
// (4 TiB): far above any machine, far below an overflow of the sums here.
constexpr int64_t kMaxFloats = int64_t{1} << 40;

// "(3, 32, 32)".
std::string FormatShape(const std::vector<int64_t>& shape);

// The product of `shape`, or -1 when it is above kMaxFloats.
int64_t ShapeProduct(const std::vector<int64_t>& shape);

// kInvalidArgument that names the layer.
absl::Status LayerError(const LayerPlan& layer, absl::string_view what);

// OK when a size that the job gives is at least 1.
absl::Status AtLeastOne(const LayerPlan& layer, absl::string_view field,
                        int64_t value);
// OK when the input is (channels, height, width).
absl::Status CheckImage(const LayerPlan& layer);
// Height and width of the output of windows over an image.
absl::Status InferWindows(int64_t kernel, int64_t stride, int64_t padding,
                          LayerPlan* layer);

// A model's plan as it grows by one layer after the other. Each kind of layer
// works out its own output and adds its own tensors.
//
// Not thread-safe: call from one thread.
class ShapeInference {
 public:
  // Infers `layers`, whose defaults are filled in, behind an output of `shape`,
  // which becomes theirs, and puts them at the end of `to`; their names begin
  // with `prefix`.
  absl::Status AddLayers(const Layers& layers, const std::string& prefix,
                         std::vector<int64_t>* shape,
                         std::vector<LayerPlan>* to);

  // For the kinds: puts a tensor behind those of the plan, and returns which
  // of them it is.
  absl::StatusOr<int> AddTensor(const LayerPlan& layer,
                                const std::string& suffix,
                                const std::vector<int64_t>& shape,
                                TensorInitializer initializer, bool decay);
  // The gamma and beta of a norm of so many channels.
  absl::Status AddGammaAndBeta(int64_t channels, LayerPlan* layer);

  // Whether no layer has been inferred.
  bool is_first() const { return is_first_; }
  ModelPlan& plan() { return plan_; }

 private:
  absl::Status AddLayer(const proto::Layer& layer, const std::string& prefix,
                        int position, std::vector<int64_t>* shape,
                        std::vector<LayerPlan>* to);

  ModelPlan plan_;
  int64_t weights_ = 0;  // Floats in plan_.tensors.
  bool is_first_ = true;
  // Full names, to the layer's position in its list.
  absl::flat_hash_map<std::string, int> names_;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_LAYERS_SHAPE_INFERENCE_H_
