#ifndef SLUICE_WORKER_MODEL_MODEL_H_
#define SLUICE_WORKER_MODEL_MODEL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/job/resolved_job.h"
#include "common/parameter_layout.h"
#include "common/telemetry/logged_values.h"
#include "kernels/accelerator.h"
#include "worker/data/data_source.h"
#include "worker/model/accelerator/gradient_array.h"
#include "worker/model/accelerator/weights_array.h"
#include "worker/task/cancel_token.h"
#include "worker/task/flow.h"
#include "worker/task/task_progress.h"

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
    LoggedValues logged = {};  // Of a model process.

    // Samples more: the loss becomes the mean over all of them.
    void Add(const Result& more);
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

  // Of a model that is one of several (worker/pipeline): so many batches are
  // given to Begin before the gradient of the first of them is asked for, and
  // each stays until that has been computed. A whole model is given each batch
  // once, to ComputeGradient.
  virtual int passes_at_once() const { return 1; }
  // The part of a pass that may come before the gradients of other batches.
  // Returns how many weights have been waited for; else as ComputeGradient.
  virtual absl::StatusOr<OrRestarted<int64_t>> Begin(const Batch& batch,
                                                     WeightSource& weights,
                                                     const CancelToken& cancel,
                                                     TaskProgress* progress) {
    return int64_t{0};
  }

  // What each tensor of this model adds to a number, in order, added to what
  // those of the models before this one do, and theirs that come behind: in one
  // order, however the tensors are divided.
  virtual absl::StatusOr<double> SumOverTensors(absl::Span<const double> own,
                                                const CancelToken& cancel) {
    double sum = 0;
    for (const double term : own) sum += term;
    return sum;
  }

  // Forward only, with the running statistics in `weights`, which are all
  // there, and no dropout. Else as above.
  virtual absl::StatusOr<Result> Evaluate(const Batch& batch,
                                          absl::Span<const float> weights) = 0;
};

// The job's model on one device, from weights to a gradient in the host's
// memory. What lies between the two stays on the device: the gradients of
// micro-batches and of local steps, their sums, and the weights that local
// steps move. Keeps nothing between calls that could change a result. Each call
// enters its thread into the device.
//
// Not thread-safe: call from the compute thread.
class Model {
 public:
  // DeviceModel::Create says what the arguments mean.
  static absl::StatusOr<std::unique_ptr<Model>> Create(
      const ResolvedJob& job, int max_samples, kernels::Device* device,
      const ModelOptions& options = {});
  // Of `layout`'s tensors. `device` must outlive the model.
  static absl::StatusOr<std::unique_ptr<Model>> On(
      kernels::Device* device, const ParameterLayout& layout,
      std::unique_ptr<DeviceModel> device_model);

  using Result = DeviceModel::Result;

  // Samples that pass the layers together.
  struct Part {
    const Batch* batch = nullptr;
    float share = 1;   // Of the mini-batch's samples.
    bool last = true;  // Of the mini-batch.
  };

  // Mini-batches with a step of SGD between one and the next, each in one part
  // or several.
  struct Steps {
    int count = 1;
    float rate = 0;  // Of the steps between.
    // Largest norm of each mini-batch's gradient (clip_norm.h); 0: any.
    double clip_norm = 0;
    // The next part, of one mini-batch after the other. Its batch stays for as
    // many calls as DeviceModel::passes_at_once() says. Its errors end the
    // computation.
    std::function<absl::StatusOr<Part>()> next;
  };

  // The sum over mini-batches i of their gradients G_i, and of running
  // statistics 1 / count times that, written whole into `gradient`:
  //
  //   G_i  = a_i1 g_i1 + a_i2 g_i2 + ... in order, clipped
  //   w_0  = weights,  w_i+1 = w_i - rate G_i  but for the statistics
  //
  // with g_ij the mean gradient of a mini-batch's part at w_i and a_ij its
  // share. Each product is added with one fma. `weights` and `gradient` are the
  // flat vector in host memory; of both all is there in the end. What the last
  // part's backward pass has made final is final; where the gradient is
  // clipped, all in the end. `progress` hears of the passes, and of copies to
  // and from a device with memory of its own. Else as
  // DeviceModel::ComputeGradient. The loss is the mean over all samples; other
  // results are their sums. Restarted: nothing of it was final.
  absl::StatusOr<OrRestarted<Result>> ComputeGradient(const Steps& steps,
                                                      WeightSource& weights,
                                                      GradientSink& gradient,
                                                      const CancelToken& cancel,
                                                      TaskProgress* progress);
  // Of a mini-batch in one part, at weights that are all there.
  absl::StatusOr<Result> ComputeGradient(const Batch& batch,
                                         absl::Span<const float> weights,
                                         absl::Span<float> gradient,
                                         const CancelToken& cancel);

  // While what it returns exists, a device with memory of its own copies from
  // and to `memory` without the host's processor: for weights, gradients and
  // inputs that lie there for many calls. nullptr: there is nothing to gain.
  // Weights and inputs must then stay until the call that they are given to has
  // returned, and may change after one that failed.
  std::unique_ptr<kernels::Registration> Register(absl::Span<float> memory);

  // Forward only, with the running statistics in `weights` and no dropout, of
  // the batches that `next` returns until it returns nullptr. Each stays until
  // the next call. The loss is the mean over all samples; other results are
  // their sums.
  absl::StatusOr<Result> Evaluate(const std::function<const Batch*()>& next,
                                  absl::Span<const float> weights);
  absl::StatusOr<Result> Evaluate(const Batch& batch,
                                  absl::Span<const float> weights);

 private:
  class Term;
  class MeanOfStatistics;
  // Device memory for a vector that not every job needs.
  class Scratch {
   public:
    Scratch(kernels::Device* device, int64_t floats)
        : device_(device), floats_(floats) {}
    // The same memory in each call, with anything in it; the first one
    // allocates it.
    absl::StatusOr<float*> Get();

   private:
    kernels::Device* const device_;
    const int64_t floats_;
    std::unique_ptr<kernels::Buffer> buffer_;
  };

  Model(kernels::Device* device, std::unique_ptr<DeviceModel> device_model,
        int64_t floats)
      : device_(device),
        device_model_(std::move(device_model)),
        floats_(floats),
        of_step_(device, floats),
        of_part_(device, floats) {}
  absl::Status Prepare(const ParameterLayout& layout);

  // Begins the next parts of a mini-batch, `begun` the ones before them whose
  // gradient is not computed yet, as far as the device model takes them.
  absl::StatusOr<OrRestarted<int64_t>> BeginAhead(const Steps& steps,
                                                  const CancelToken& cancel,
                                                  TaskProgress* progress,
                                                  std::deque<Part>* begun);
  // The gradient of the next mini-batch, at the present weights.
  absl::StatusOr<OrRestarted<Result>> ComputeStep(const Steps& steps,
                                                  const CancelToken& cancel,
                                                  TaskProgress* progress,
                                                  GradientSink& into);
  // Clips a mini-batch's gradient, by the norm of the whole model's.
  absl::Status Clip(double limit, const CancelToken& cancel, float* gradient);

  // Constant after Prepare.
  kernels::Device* const device_;
  const std::unique_ptr<DeviceModel> device_model_;
  const int64_t floats_;  // Of the flat vector.
  std::unique_ptr<kernels::VectorOp> all_, trained_, statistics_;
  std::vector<std::unique_ptr<kernels::VectorOp>>
      tensors_;  // Each trained one.

  // Overwritten by every call before they are read.
  std::optional<WeightsArray> weights_;
  std::optional<GradientArray> gradient_;
  Scratch of_step_, of_part_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_MODEL_H_
