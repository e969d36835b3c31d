#include "ps_server/coordinator/policy/update_weights.h"

#include <algorithm>

namespace sluice {

std::vector<float> UpdateWeights(
    const std::vector<WeighedGradient>& gradients,
    const std::optional<StalenessBound>& staleness) {
  double sum = 0;
  for (const WeighedGradient& g : gradients) {
    sum += static_cast<double>(g.samples) / g.batches;
  }
  const bool downweight = staleness.has_value() &&
                          staleness->action == StalenessAction::kDownweight;
  std::vector<float> weights;
  weights.reserve(gradients.size());
  for (const WeighedGradient& g : gradients) {
    double weight = static_cast<double>(g.samples) / g.batches / sum;
    if (downweight) {
      weight /= 1 + std::max<int64_t>(0, g.staleness - staleness->bound);
    }
    weights.push_back(static_cast<float>(weight));
  }
  return weights;
}

}  // namespace sluice
