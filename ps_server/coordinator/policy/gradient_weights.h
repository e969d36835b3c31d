#ifndef SLUICE_PS_SERVER_COORDINATOR_POLICY_GRADIENT_WEIGHTS_H_
#define SLUICE_PS_SERVER_COORDINATOR_POLICY_GRADIENT_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "proto/job.pb.h"

namespace sluice {

// One gradient of an update, as far as its weight goes.
struct WeighedGradient {
  int64_t samples = 0;    // Of all its mini-batches.
  int batches = 1;        // Local steps.
  int64_t staleness = 0;  // Version the update starts from, minus its base.
};

// The weights w_i of the sum w_1 g_1 + ... + w_K g_K that the optimizer gets:
//
//   w_i = m_i / (m_1 + ... + m_K),  m_i = samples_i / batches_i,
//
// which is 1/K unless an epoch's last, short mini-batch is among them. With
// DOWNWEIGHT each is then divided by 1 + max(0, staleness_i - bound), and not
// scaled up again: stale gradients take a smaller step.
//
// Numerics: computed in double, rounded once; equal m_i give exactly 1/K.
std::vector<float> GradientWeights(
    const std::vector<WeighedGradient>& gradients,
    const proto::Staleness& staleness);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_POLICY_GRADIENT_WEIGHTS_H_
