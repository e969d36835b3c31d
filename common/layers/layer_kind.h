#ifndef SLUICE_COMMON_LAYERS_LAYER_KIND_H_
#define SLUICE_COMMON_LAYERS_LAYER_KIND_H_

#include <google/protobuf/repeated_field.h>

#include <string>

#include "absl/status/status.h"
#include "common/job/job_checker.h"
#include "common/layers/model_plan.h"
#include "proto/job.pb.h"

namespace sluice {

class ShapeInference;

// What there is to know of one kind of layer without any device. Each kind
// stands in a file of this folder; what it leaves out does nothing.
struct LayerKind {
  // Fills in what the job leaves out.
  void (*fill_defaults)(proto::Layer* layer) = [](proto::Layer*) {};

  // Adds what is wrong with a layer whose defaults are filled in. `path` names
  // the kind's field: "model.layer[0].dense".
  void (*check)(const proto::Layer& layer, const std::string& path,
                Checker* check) = [](const proto::Layer&, const std::string&,
                                     Checker*) {};

  // Works out `layer->output_shape`, which is the input's at first, and adds
  // the layer's tensors to `model`. kInvalidArgument names the layer, what it
  // expected and what it got.
  absl::Status (*infer)(LayerPlan* layer, ShapeInference* model) =
      [](LayerPlan*, ShapeInference*) { return absl::OkStatus(); };
};

extern const LayerKind kActivationLayer;
extern const LayerKind kAttentionLayer;
extern const LayerKind kBatchNormLayer;
extern const LayerKind kConv2dLayer;
extern const LayerKind kDenseLayer;
extern const LayerKind kDropoutLayer;
extern const LayerKind kEmbeddingLayer;
extern const LayerKind kFlattenLayer;
extern const LayerKind kGlobalAveragePoolLayer;
extern const LayerKind kGroupNormLayer;
extern const LayerKind kLayerNormLayer;
extern const LayerKind kPoolLayer;
extern const LayerKind kRepeatLayer;
extern const LayerKind kResidualLayer;
extern const LayerKind kTiedOutputLayer;

// The kind of `layer`; nullptr where it names none.
inline const LayerKind* KindOf(const proto::Layer& layer) {
  switch (layer.kind_case()) {
    case proto::Layer::kDense:
      return &kDenseLayer;
    case proto::Layer::kConv2D:
      return &kConv2dLayer;
    case proto::Layer::kMaxPool:
    case proto::Layer::kAveragePool:
      return &kPoolLayer;
    case proto::Layer::kGlobalAveragePool:
      return &kGlobalAveragePoolLayer;
    case proto::Layer::kFlatten:
      return &kFlattenLayer;
    case proto::Layer::kDropout:
      return &kDropoutLayer;
    case proto::Layer::kBatchNorm:
      return &kBatchNormLayer;
    case proto::Layer::kGroupNorm:
      return &kGroupNormLayer;
    case proto::Layer::kLayerNorm:
      return &kLayerNormLayer;
    case proto::Layer::kEmbedding:
      return &kEmbeddingLayer;
    case proto::Layer::kAttention:
      return &kAttentionLayer;
    case proto::Layer::kTiedOutput:
      return &kTiedOutputLayer;
    case proto::Layer::kResidual:
      return &kResidualLayer;
    case proto::Layer::kRepeat:
      return &kRepeatLayer;
    case proto::Layer::kRelu:
    case proto::Layer::kTanh:
    case proto::Layer::kGelu:
    case proto::Layer::kSigmoid:
      return &kActivationLayer;
    case proto::Layer::KIND_NOT_SET:
      break;
  }
  return nullptr;
}

using Layers = google::protobuf::RepeatedPtrField<proto::Layer>;

// Fills in each layer's defaults, and where it has no name its kind and its
// position in the list: "conv2d0".
void FillLayerDefaults(Layers* layers);

// Adds what is wrong with layers whose defaults are filled in. `path` is that
// of the list: "model.layer".
void CheckLayers(const std::string& path, const Layers& layers, Checker* check);

}  // namespace sluice

#endif  // SLUICE_COMMON_LAYERS_LAYER_KIND_H_
