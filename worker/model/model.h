#ifndef SLUICE_WORKER_MODEL_MODEL_H_
#define SLUICE_WORKER_MODEL_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/resolved_job.h"
#include "kernels/device.h"
#include "worker/cancel_token.h"
#include "worker/data/data_source.h"

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

// The job's model on one device: layers prepared once for a mini-batch size
// and run many times. Keeps nothing between calls that could change a result.
// Each call enters its thread into the device.
//
// Not thread-safe: call from the thread that computes.
class Model {
 public:
  // Prepares for up to `max_samples` per call. `device` and the options' clock
  // must outlive the model. kInvalidArgument where the device lacks an
  // operation, or the loss does not fit the data.
  static absl::StatusOr<std::unique_ptr<Model>> Create(
      const ResolvedJob& job, int max_samples, kernels::Device* device,
      const ModelOptions& options = {});
  virtual ~Model() = default;

  struct Result {
    double loss = 0;      // Mean over the samples, and over their labels.
    int64_t correct = 0;  // Classification: labels that are the argmax.
    // Times that the gradient was computed again because FP16 overflowed.
    int overflows = 0;
  };

  // Called during backward: everything of the gradient from float `from` on
  // is final. `from` does not grow from call to call and ends at 0.
  using OnGradientReady = std::function<void(int64_t from)>;

  // What a gradient waits for, and whom it tells.
  struct Observer {
    OnGradientReady on_ready = [](int64_t) {};
    // Called in forward, before the first operation that reads them: waits
    // until the weights before float `end` are there, and returns how many are
    // from the first on. Its errors end the computation. nullptr: all are.
    std::function<absl::StatusOr<int64_t>(int64_t end)> await = nullptr;
    // Forward has ended.
    std::function<void()> on_backward = [] {};
    // Copies to or from a device with memory of its own begin, or have ended.
    std::function<void(bool to_device, bool begin)> on_copy = [](bool, bool) {};
  };

  // Mean gradient over the batch at `weights`, written whole into `gradient`;
  // both are the flat vector (the layout's size) in host memory. The batch is
  // on its way to the device before any weights are awaited. The slots
  // of running statistics carry the batch's own. In FP16 the loss is scaled
  // (loss_scale.h), and nothing is final before the end. Looks at `cancel`
  // between layers, or recorded segments of them: kAborted when it is set.
  // kInvalidArgument where the batch's labels or targets do not fit. REQUIRES:
  // 1 <= batch.samples <= max_samples.
  virtual absl::StatusOr<Result> ComputeGradient(
      const Batch& batch, absl::Span<const float> weights,
      absl::Span<float> gradient, const CancelToken& cancel,
      const Observer& observer) = 0;

  // Forward only, with the running statistics in `weights` and no dropout.
  // Else as above.
  virtual absl::StatusOr<Result> Evaluate(const Batch& batch,
                                          absl::Span<const float> weights) = 0;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_MODEL_H_
