#ifndef SLUICE_WORKER_COMPUTE_LAYER_TIMES_H_
#define SLUICE_WORKER_COMPUTE_LAYER_TIMES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/job/resolved_job.h"
#include "common/job/stage_plan.h"

namespace sluice {

// What a micro-batch takes in a part of the model that could be a stage.
struct LayerTime {
  ModelStage part;
  double forward = 0, backward = 0;  // Seconds.
};

// Measures the parts of `job`'s model (SmallestStages), computed as a whole in
// this process: the median of as many passes as `patience` allows, three or
// more, over the first micro-batch of the training split, at the first weights.
// The loss counts as forward. Meanwhile `at_once` - 1 other threads compute the
// same, as the processes beside it do on a machine that has several.
// kInvalidArgument: a model process computes the model, or a GPU, whose
// operations outlive the calls that are timed. Else errors name the file or the
// device.
absl::StatusOr<std::vector<LayerTime>> MeasureLayers(const ResolvedJob& job,
                                                     absl::Duration patience,
                                                     int at_once = 1);

}  // namespace sluice

#endif  // SLUICE_WORKER_COMPUTE_LAYER_TIMES_H_
