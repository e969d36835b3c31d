#ifndef SLUICE_COMMON_LAYERS_MODEL_PLAN_H_
#define SLUICE_COMMON_LAYERS_MODEL_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/parameter_layout.h"
#include "proto/job.pb.h"

namespace sluice {

// One layer of the model, a repeat already written out, with its shapes worked
// out. Shapes leave out the batch dimension: (channels, height, width) for
// images, (features) after flatten, (length, features) behind an embedding.
struct LayerPlan {
  // The job's, or kind and position: "conv2d0"; behind those of the layers it
  // lies in: "residual2.conv2d0", "repeat4.1.conv2d0".
  std::string name;
  // With every default and `name` filled in; its own layers, of a residual, are
  // as the job has them: `body` is the plan of those.
  proto::Layer layer;
  std::vector<int64_t> input_shape;
  std::vector<int64_t> output_shape;
  // Index into `ModelPlan::tensors`; -1 where the layer has none.
  int weight = -1;  // A norm's gamma, an embedding's or tied_output's tokens.
  int bias = -1;    // A norm's beta, an embedding's positions.
  int running_mean = -1;
  int running_variance = -1;
  // Of a residual: its layers, and the projection where there is one.
  std::vector<LayerPlan> body;
  std::vector<LayerPlan> projection;
};

// The model of a job, without any device: what shards, workers and the tool
// all derive from the job file alone.
struct ModelPlan {
  std::vector<int64_t> input_shape;
  std::vector<LayerPlan> layers;  // None with model.external.
  // In layer order, weight before bias, then the running mean and variance; a
  // residual's projection last. Offsets and sizes are filled in.
  std::vector<TensorSpec> tensors;
  int64_t vocabulary = 0;  // Of the embedding; 0 without one.
  // Whether a tied_output has its part in the gradient of the embedding's
  // tokens, which it writes first. Of a stage: whether it, or one behind it,
  // has that layer.
  bool tied_output = false;
};

// Whether one of the layers, or of those that lie in them, is a tied_output.
bool HaveTiedOutput(const std::vector<LayerPlan>& layers);

// Works out the shapes of `model`, with or without defaults filled in, on
// inputs of `input_shape`. kInvalidArgument names the layer, what it expected
// and what it got; also where the last output is neither flat nor (length,
// outputs), or no layer has weights. With model.external the plan is its
// tensors.
absl::StatusOr<ModelPlan> PlanModel(const proto::Model& model,
                                    const std::vector<int64_t>& input_shape);

}  // namespace sluice

#endif  // SLUICE_COMMON_LAYERS_MODEL_PLAN_H_
