#ifndef SLUICE_WORKER_MODEL_RESIDUAL_H_
#define SLUICE_WORKER_MODEL_RESIDUAL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/model/layer.h"

namespace sluice {

// y = f(x) + x, or f(x) + p(x) where the plan has a projection. `relu` as
// MakeLayer's.
absl::StatusOr<std::unique_ptr<Layer>> MakeResidual(const LayerContext& context,
                                                    const LayerPlan& layer,
                                                    bool relu);

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_RESIDUAL_H_
