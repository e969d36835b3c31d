#ifndef SLUICE_WORKER_REFERENCE_REFERENCE_TRAINER_H_
#define SLUICE_WORKER_REFERENCE_REFERENCE_TRAINER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/job/resolved_job.h"
#include "worker/data/data_source.h"
#include "worker/model/model.h"

namespace sluice {

struct ReferenceResult {
  Version version;
  std::vector<float> weights;
  std::string weights_sha256;
};

// Trains a SYNC job in this process alone, the plain way:
//
//   for v = 0, 1, ...
//     g_i = gradient of mini-batch v P + i at w,   i = 0..P-1; with H local
//           steps the sum of H gradients, of the mini-batches from
//           (v P + i) H on, each at the end of the SGD step before, and of
//           running statistics 1 / H times the sum; w as it is pulled
//           (job.wire.pull), g_i as it is pushed (job.wire.push)
//     g   = a_0 g_0, then g <- a_i g_i + g in order,
//           a_i in proportion to the mean samples of g_i's mini-batches
//     g   <- decay * w + g     where the tensor decays
//     u   <- momentum * u + g
//     w   <- w - rate * u      (Nesterov: momentum * u + g instead of u)
//
// in fp32, one fma for each line; for the other optimizers, instead of the
// last lines, those of kernels/optimizer_kernels.h written again. Shares model,
// data, the gradient of a mini-batch (NativeGradient of one), layout, initial
// weights and the learning rate with the daemons, and nothing of local steps,
// coordinator, shards, exchange or optimizer: the same bits from both show that
// they agree.
//
// `data` is the training split; `model` is prepared for JobMicroBatch(job)
// samples. Call from a thread that has entered the model's device
// (ComputeContext). kInvalidArgument: the job is not SYNC, or stops by anything
// but epochs and updates. Else errors as InitialWeights's and Model's.
absl::StatusOr<ReferenceResult> TrainReference(const ResolvedJob& job,
                                               const DataSource& data,
                                               Model* model);

}  // namespace sluice

#endif  // SLUICE_WORKER_REFERENCE_REFERENCE_TRAINER_H_
