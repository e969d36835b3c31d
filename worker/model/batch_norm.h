#ifndef SLUICE_WORKER_MODEL_BATCH_NORM_H_
#define SLUICE_WORKER_MODEL_BATCH_NORM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/model/layer.h"

namespace sluice {

// Batch normalisation over channels or features. In training the mini-batch's
// mean and variance are written into the slots of the running statistics in the
// pass's gradient, by Forward, and Backward reads them there. `relu` as
// MakeLayer's.
absl::StatusOr<std::unique_ptr<Layer>> MakeBatchNorm(
    const LayerContext& context, const LayerPlan& layer, bool relu);

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_BATCH_NORM_H_
