#ifndef SLUICE_COMMON_LAYERS_MULTIPLY_ADDS_H_
#define SLUICE_COMMON_LAYERS_MULTIPLY_ADDS_H_

#include "common/layers/model_plan.h"

namespace sluice {

// Multiply-adds of one sample's forward pass through `layer`, the measure by
// which a model is cut into stages. With f features in and g out, at each of n
// places:
//
//   dense, tied output      n f g
//   conv2d, k x k           n f g k^2
//   attention               2 n^2 g        (scores, and the sum of values)
//   residual                those of its body and its projection, and n g
//   any other               n g
//
// A backward pass makes twice as many.
double MultiplyAdds(const ModelPlan& plan, const LayerPlan& layer);

}  // namespace sluice

#endif  // SLUICE_COMMON_LAYERS_MULTIPLY_ADDS_H_
