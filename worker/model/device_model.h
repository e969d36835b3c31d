#ifndef SLUICE_WORKER_MODEL_DEVICE_MODEL_H_
#define SLUICE_WORKER_MODEL_DEVICE_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/resolved_job.h"
#include "kernels/device.h"
#include "worker/cancel_token.h"
#include "worker/data/data_source.h"
#include "worker/flow.h"
#include "worker/task_progress.h"

namespace sluice {

struct ModelOptions {
  // Whether the training passes over full mini-batches are recorded where the
  // device can; it changes no result.
  bool records = true;
  Clock* clock = Clock::Real();  // Measures what is recorded together.
  // Hears why the device did not record layers, which costs time only.
  std::function<void(const absl::Status& why)> on_refused =
      [](const absl::Status&) {};
};

// The job's layers and the loss behind them, prepared once for a mini-batch
// size and run many times: from weights in the device's memory to a gradient
// there. Keeps nothing between calls that could change a result.
//
// Not thread-safe: call from a thread that has entered the device.
class DeviceModel {
 public:
  // Prepares for up to `max_samples` per call. `device` and the options' clock
  // must outlive the model. kInvalidArgument where the device lacks an
  // operation, or the loss does not fit the data.
  static absl::StatusOr<std::unique_ptr<DeviceModel>> Create(
      const ResolvedJob& job, int max_samples, kernels::Device* device,
      const ModelOptions& options);
  virtual ~DeviceModel() = default;

  struct Result {
    int64_t samples = 0;
    double loss = 0;      // Mean over the samples, and over their labels.
    int64_t correct = 0;  // Classification: labels that are the argmax.
    // Times that the gradient was computed again because FP16 overflowed.
    int overflows = 0;
  };

  // Mean gradient over the batch, written whole into `gradient`. `weights` and
  // `gradient` are the flat vector (the layout's size) in the device's memory;
  // operations are called when the weights that they read have been waited for,
  // and a part of the gradient is final when those that write it have been
  // called. The batch is on its way to the device before any weights are waited
  // for. The slots of running statistics carry the batch's own. In FP16 the
  // loss is scaled (loss_scale.h), and nothing is final before the end.
  // `progress` hears when backward begins, and of the batch's copy. Looks at
  // `cancel` between layers, or recorded segments of them: kAborted when it is
  // set. kInvalidArgument where the batch's labels or targets do not fit.
  // Returns when the loss is known; operations may still run. REQUIRES:
  // 1 <= batch.samples <= max_samples.
  virtual absl::StatusOr<OrRestarted<Result>> ComputeGradient(
      const Batch& batch, WeightSource& weights, GradientSink& gradient,
      const CancelToken& cancel, TaskProgress* progress) = 0;

  // Forward only, with the running statistics in `weights`, which are all
  // there, and no dropout. Else as above.
  virtual absl::StatusOr<Result> Evaluate(const Batch& batch,
                                          absl::Span<const float> weights) = 0;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_DEVICE_MODEL_H_
