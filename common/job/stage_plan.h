#ifndef SLUICE_COMMON_JOB_STAGE_PLAN_H_
#define SLUICE_COMMON_JOB_STAGE_PLAN_H_

#include <cstddef>
#include <string>
#include <vector>

#include "common/job/resolved_job.h"
#include "common/layers/model_plan.h"
#include "common/parameter_range.h"
#include "proto/job.pb.h"

namespace sluice {

// One stage of a pipeline: consecutive layers of the model, and the weights
// that they have.
struct ModelStage {
  size_t begin = 0, end = 0;  // Layers.
  ParameterRange parameters;  // In the flat vector.
  double multiply_adds = 0;   // Of a sample's forward pass.
};

// Cuts `plan` where `group` says. Without `cuts` it is cut so that the largest
// stage's multiply-adds are as few as can be, and of such cuts each as late as
// can be; they are written to `group`. Adds to `violations` what is wrong: a
// cut that names no layer of the model or one that lies inside a residual, cuts
// out of order, too many stages, or a stage without weights. REQUIRES:
// group->pipeline_stages() >= 1; `plan` has layers.
void ResolveCuts(const ModelPlan& plan, proto::Group* group,
                 std::vector<std::string>* violations);

// The names of the layers with which `stages` stages but the first begin, where
// the sum of the largest one's `costs` is as low as can be, and of such cuts
// each as late as can be. Fewer where the model has not as many stages.
// REQUIRES: a cost, 0 or more, for each layer of `plan`.
std::vector<std::string> CutsByCost(const ModelPlan& plan,
                                    const std::vector<double>& costs,
                                    int stages);

// The most stages that a model can have: each is a layer with weights, and
// those without that lie behind it, or before the first.
std::vector<ModelStage> SmallestStages(const ModelPlan& plan);

// The stages of a job, one where its workers are one process each.
std::vector<ModelStage> StagesOf(const ResolvedJob& job);

// Passes that stage `stage` of `stages` has begun and not ended, at most: as
// many as 1F1B needs where all stages take equally long and links no time, and
// but in the last stage one more, so that a stage behind has its next input
// before it is done with the one before.
inline int PassesAtOnce(int stages, int stage) {
  return stage + 1 == stages ? 1 : stages - stage + 1;
}

// The floats from which each member but the first pushes, in the flat vector:
// what divides the shards' chunks besides their size.
std::vector<int64_t> MemberCuts(const ResolvedJob& job);

// `job` as the members of stage `stage` see it: the stage's layers, on inputs
// as the layer before them makes them, and a layout of the stage's tensors
// alone (ParameterLayout::Part). Job and fingerprint stay.
ResolvedJob JobOfStage(const ResolvedJob& job, int stage);

}  // namespace sluice

#endif  // SLUICE_COMMON_JOB_STAGE_PLAN_H_
