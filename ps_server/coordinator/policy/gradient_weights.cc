// Why m_i is the mean size of a mini-batch: a gradient is the mean over its
// samples, or with H local steps the sum of H such means. So every sample of
// the update counts the same, whoever computed it:
//
//   32, 32 and 16 samples     weights 0.4, 0.4, 0.2: 1/80 for each sample
//   4 * 32 and 2 * 32         weights 0.5, 0.5: the first is a sum of twice
//                             as many means
//
// and with DOWNWEIGHT, bound 2, for two gradients of staleness 1 and 5:
//
//   0.5 and 0.5 / (1 + 3) = 0.125, not scaled up to add up to 1
#include "ps_server/coordinator/policy/gradient_weights.h"

#include <algorithm>

#include "ps_server/coordinator/policy/policy_rules.h"

namespace sluice {

std::vector<float> GradientWeights(
    const std::vector<WeighedGradient>& gradients,
    const proto::Staleness& staleness) {
  double sum = 0;
  for (const WeighedGradient& g : gradients) {
    sum += static_cast<double>(g.samples) / g.batches;
  }
  const bool weighs_less = RulesOf(staleness.action()).weighs_less;
  std::vector<float> weights;
  weights.reserve(gradients.size());
  for (const WeighedGradient& g : gradients) {
    double weight = static_cast<double>(g.samples) / g.batches / sum;
    if (weighs_less) {
      weight /= 1 + std::max<int64_t>(0, g.staleness - staleness.bound());
    }
    weights.push_back(static_cast<float>(weight));
  }
  return weights;
}

}  // namespace sluice
