#ifndef SLUICE_WORKER_MODEL_MODEL_H_
#define SLUICE_WORKER_MODEL_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/parameter_layout.h"
#include "common/resolved_job.h"
#include "kernels/device.h"
#include "worker/cancel_token.h"
#include "worker/data/data_source.h"
#include "worker/model/device_model.h"
#include "worker/model/gradient_array.h"
#include "worker/model/scratch_vector.h"
#include "worker/model/weights_array.h"

namespace sluice {

// The job's model on one device, from weights to a gradient in the host's
// memory. What lies between the two stays on the device: the gradients of
// micro-batches and of local steps, their sums, and the weights that local
// steps move. Keeps nothing between calls that could change a result. Each call
// enters its thread into the device.
//
// Not thread-safe: call from the thread that computes.
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

  // Called when everything of the gradient from float `from` on is there, for
  // good. `from` does not grow from call to call and ends at 0.
  using OnGradientReady = std::function<void(int64_t from)>;

  // What a gradient waits for, and whom it tells.
  struct Observer {
    OnGradientReady on_ready = [](int64_t) {};
    // Called in forward, before the first operation that reads them: waits
    // until the weights before float `end` are there, and returns how many are
    // from the first on. Its errors end the computation. nullptr: all are.
    std::function<absl::StatusOr<int64_t>(int64_t end)> await = nullptr;
    // A forward pass begins, or a backward pass.
    std::function<void()> on_forward = [] {};
    std::function<void()> on_backward = [] {};
    // Copies to or from a device with memory of its own begin, or have ended.
    std::function<void(bool to_device, bool begin)> on_copy = [](bool, bool) {};
  };

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
    // The next part, of one mini-batch after the other. Its batch stays until
    // the next call.
    std::function<Part()> next;
  };

  // The sum over mini-batches i of their gradients G_i, and of running
  // statistics 1 / count times that, written whole into `gradient`:
  //
  //   G_i  = a_i1 g_i1 + a_i2 g_i2 + ... in order, clipped
  //   w_0  = weights,  w_i+1 = w_i - rate G_i  but for the statistics
  //
  // with g_ij the mean gradient of a mini-batch's part at w_i and a_ij its
  // share. Each product is added with one fma. `weights` and `gradient` are the
  // flat vector in host memory. Of the gradient is ready what the last part's
  // backward pass has made final; where it is clipped, all in the end. Else as
  // DeviceModel::ComputeGradient. The loss is the mean over all samples; other
  // results are their sums.
  absl::StatusOr<Result> ComputeGradient(const Steps& steps,
                                         absl::Span<const float> weights,
                                         absl::Span<float> gradient,
                                         const CancelToken& cancel,
                                         const Observer& observer);
  // Of a mini-batch in one part.
  absl::StatusOr<Result> ComputeGradient(const Batch& batch,
                                         absl::Span<const float> weights,
                                         absl::Span<float> gradient,
                                         const CancelToken& cancel,
                                         const Observer& observer);

  // Forward only, with the running statistics in `weights` and no dropout, of
  // the batches that `next` returns until it returns nullptr. Each stays until
  // the next call. The loss is the mean over all samples; other results are
  // their sums.
  absl::StatusOr<Result> Evaluate(const std::function<const Batch*()>& next,
                                  absl::Span<const float> weights);
  absl::StatusOr<Result> Evaluate(const Batch& batch,
                                  absl::Span<const float> weights);

 private:
  // Hears of parts of a gradient that are final, from its end to its beginning.
  using OnFinal = std::function<absl::Status(ParameterRange)>;
  // Where a gradient is made, in the device's memory.
  struct Target {
    float* gradient = nullptr;
    OnFinal on_final;
  };
  struct Call;  // Arguments of ComputeGradient.

  Model(kernels::Device* device, std::unique_ptr<DeviceModel> device_model,
        int64_t floats)
      : device_(device),
        device_model_(std::move(device_model)),
        floats_(floats),
        of_step_(device, floats),
        of_part_(device, floats) {}
  absl::Status Prepare(const ParameterLayout& layout);

  // The gradients of a mini-batch, and of a part of one.
  absl::StatusOr<Result> ComputeStep(const Call& call, const Target& target);
  absl::StatusOr<Result> ComputePart(const Call& call, const Batch& batch,
                                     const Target& target);
  // `scratch`, of which `sum` gets `share` times what is final: added to it, or
  // in place of it if this is the first term.
  absl::StatusOr<Target> TermOf(const Target& sum, bool first, float share,
                                ScratchVector* scratch);

  // Constant after Prepare.
  kernels::Device* const device_;
  const std::unique_ptr<DeviceModel> device_model_;
  const int64_t floats_;  // Of the flat vector.
  std::unique_ptr<kernels::VectorOp> all_, trained_, statistics_;

  // Overwritten by every call before they are read.
  std::optional<WeightsArray> weights_;
  std::optional<GradientArray> gradient_;
  ScratchVector of_step_, of_part_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_MODEL_H_
