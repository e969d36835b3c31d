#ifndef SLUICE_COMMON_KIND_PLANNER_H_
#define SLUICE_COMMON_KIND_PLANNER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/model_plan.h"

namespace sluice {

// Activations of one sample and all weights stay below this many floats
// (4 TiB): far above any machine, far below an overflow of the sums here.
constexpr int64_t kMaxFloats = int64_t{1} << 40;

// "(3, 32, 32)".
std::string FormatShape(const std::vector<int64_t>& shape);

// The product of `shape`, or -1 when it is above kMaxFloats.
int64_t ShapeProduct(const std::vector<int64_t>& shape);

// How a model's plan grows by one layer that holds no others. Errors are
// kInvalidArgument and name the layer, what it expected and what it got.
//
// Not thread-safe: call from one thread.
class KindPlanner {
 protected:
  explicit KindPlanner(const std::vector<int64_t>& input_shape)
      : shape_(input_shape) {
    plan_.input_shape = input_shape;
  }

  // Shapes and tensors of `current_`, from the layer that it has.
  absl::Status PlanKind();

  absl::Status Error(absl::string_view what) const;

  ModelPlan plan_;
  std::vector<int64_t> shape_;  // Output of what has been planned.
  LayerPlan current_;

 private:
  absl::Status PlanByKind();
  absl::Status Dense(proto::Dense* dense);
  absl::Status Conv2d(proto::Conv2d* conv);
  absl::Status Pool(proto::Pool* pool);
  absl::Status BatchNorm(proto::BatchNorm* norm);
  absl::Status Embedding(proto::Embedding* embedding);
  absl::Status LayerNorm(proto::LayerNorm* norm);
  absl::Status Attention(const proto::Attention& attention);
  absl::Status TiedOutput();

  // OK when a size that the job gives is at least 1.
  absl::Status AtLeastOne(absl::string_view field, int64_t value) const;
  absl::Status CheckImage() const;
  // The output of windows over an image: height and width of `shape_`.
  absl::Status Window(int64_t kernel, int64_t stride, int64_t padding);
  absl::Status AddWeights(const std::vector<int64_t>& shape, int64_t fan_in,
                          int64_t fan_out, bool bias,
                          proto::Initializer* initializer);
  absl::Status AddTensor(const std::string& suffix,
                         const std::vector<int64_t>& shape,
                         TensorInitializer initializer, bool decay);

  int64_t weights_ = 0;  // Floats in plan_.tensors.
  bool first_ = true;    // Nothing has been planned.
  // The embedding's tokens, in plan_.tensors; -1 without one.
  int tokens_ = -1;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_KIND_PLANNER_H_
