#ifndef SLUICE_COMMON_LAYERS_WEIGHTS_H_
#define SLUICE_COMMON_LAYERS_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/job/job_checker.h"
#include "common/layers/model_plan.h"
#include "common/layers/shape_inference.h"
#include "proto/job.pb.h"

// The weight, the bias and the initializer of dense and conv2d.
namespace sluice {

void FillInitializer(proto::Initializer* initializer);

// `path` is the layer's: "model.layer[0].dense".
void CheckInitializer(const std::string& path,
                      const proto::Initializer& initializer, Checker* check);

// Adds a weight of `shape`, and where there is to be a `bias` one for each of
// its first dimension. HE and XAVIER draw from the uniform distribution whose
// limit follows from the sums' sizes (He et al. 2015; Glorot, Bengio 2010).
absl::Status AddWeights(const std::vector<int64_t>& shape, int64_t fan_in,
                        int64_t fan_out, bool bias,
                        const proto::Initializer& initializer, LayerPlan* layer,
                        ShapeInference* model);

}  // namespace sluice

#endif  // SLUICE_COMMON_LAYERS_WEIGHTS_H_
