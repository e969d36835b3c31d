#include "common/layers/multiply_adds.h"

#include <cstdint>
#include <vector>

namespace sluice {
namespace {

double Product(const std::vector<int64_t>& shape) {
  double product = 1;
  for (const int64_t size : shape) product *= static_cast<double>(size);
  return product;
}

}  // namespace

double MultiplyAdds(const ModelPlan& plan, const LayerPlan& layer) {
  const double outputs = Product(layer.output_shape);
  switch (layer.layer.kind_case()) {
    case proto::Layer::kDense:
    case proto::Layer::kTiedOutput:
      return outputs * static_cast<double>(layer.input_shape.back());
    case proto::Layer::kConv2D: {
      // (channels out, channels in, k, k): each output takes what is behind the
      // first.
      const std::vector<int64_t>& weight = plan.tensors[layer.weight].shape;
      return outputs * Product(weight) / static_cast<double>(weight[0]);
    }
    case proto::Layer::kAttention:
      return 2 * outputs * static_cast<double>(layer.input_shape[0]);
    case proto::Layer::kResidual: {
      double sum = outputs;
      for (const LayerPlan& inner : layer.body) {
        sum += MultiplyAdds(plan, inner);
      }
      for (const LayerPlan& beside : layer.projection) {
        sum += MultiplyAdds(plan, beside);
      }
      return sum;
    }
    default:
      return outputs;
  }
}

}  // namespace sluice
