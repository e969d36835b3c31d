#ifndef SLUICE_WORKER_MODEL_LAYER_STACK_H_
#define SLUICE_WORKER_MODEL_LAYER_STACK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/device.h"
#include "worker/model/layer.h"

namespace sluice {

// Numbers of one sample of this shape.
int64_t SizeOf(const std::vector<int64_t>& shape);

// Those of (channels, height, width); of another shape all are channels.
struct ImageShape {
  int64_t channels = 1;
  int64_t pixels = 1;  // Of each channel.
};
ImageShape ImageShapeOf(const std::vector<int64_t>& shape);

// kAborted where the pass is cancelled.
absl::Status LookForCancel(const Pass& pass);
// What comes between layers: waits as Accelerator::Pace, unless `accelerator`
// is nullptr, then looks for a cancel. Nothing while the pass is recorded.
absl::Status PauseBetween(kernels::Accelerator* accelerator, int ahead,
                          const Pass& pass);

// Layers one after the other, with the memory for what lies between them. Waits
// for no weights: whoever runs a model's layers has waited for those of the
// part that it runs (RecordedStack), and so of what lies within a residual.
//
// Not thread-safe: call from the compute thread.
class LayerStack {
 public:
  static absl::StatusOr<std::unique_ptr<LayerStack>> Create(
      const LayerContext& context, absl::Span<const LayerPlan> layers);

  // Comes before a pass's Forward.
  absl::Status BeginPass(const Pass& pass);
  // kAborted when the pass is cancelled. REQUIRES: all weights of these layers
  // are there; of ForwardPart, of its part.
  absl::Status Forward(const Pass& pass, const void* x);
  // Of the last Forward, whose input was `x`.
  const void* Output(const void* x) const { return InputOf(size(), x); }

  // After Forward with the same `x`, from `dy`, the gradient at the output:
  // the gradient at `x`, which is there until the next Backward; nullptr when
  // it is not wanted, and what leads only to it is then left out. `dy` is kept
  // unless it is `scratch`. kAborted when the pass is cancelled.
  absl::StatusOr<const void*> Backward(const Pass& pass, const void* x,
                                       const void* dy, bool wants_dx);
  // What comes between two of these layers.
  absl::Status Pause(const Pass& pass) const;
  // Where a caller may put `dy`. nullptr when there are no layers.
  void* scratch() const {
    return scratch_[0] == nullptr ? nullptr : scratch_[0]->data();
  }

  // Of Forward and Backward those layers [begin, end), the parts one after the
  // other: in Backward from the last one down to first_with_parameters(), or to
  // 0 when the gradient at `x` is wanted, with the `dy` that the part before
  // returned. Forward's part returns where its output is.
  absl::StatusOr<const void*> ForwardPart(const Pass& pass, const void* x,
                                          size_t begin, size_t end);
  absl::StatusOr<const void*> BackwardPart(const Pass& pass, const void* x,
                                           const void* dy, size_t begin,
                                           size_t end, bool wants_dx);
  size_t size() const { return steps_.size(); }
  // Where the last of these layers' parameters end; 0 when they have none.
  int64_t ParametersEnd(size_t begin, size_t end) const;
  // size() when there is none.
  size_t first_with_parameters() const { return first_with_parameters_; }

  // From the first layer's to the last one's; empty when none has any.
  ParameterRange parameters() const { return parameters_; }

 private:
  struct Step {
    std::unique_ptr<Layer> layer;
    std::unique_ptr<kernels::Buffer> buffer;  // Of y; none when in place.
    void* y = nullptr;
    bool within = false;  // Its forward is part of the step's before it.
  };

  explicit LayerStack(kernels::Accelerator* accelerator)
      : accelerator_(accelerator) {}
  absl::Status AddStep(const LayerContext& context, const LayerPlan& plan,
                       std::unique_ptr<Layer> layer, bool within);
  // Where the step's input is, with the stack's at `x`.
  const void* InputOf(size_t step, const void* x) const {
    return step == 0 ? x : steps_[step - 1].y;
  }

  // Constant after Create.
  kernels::Accelerator* const accelerator_;  // nullptr: on the CPU.
  std::vector<Step> steps_;
  size_t first_with_parameters_ = 0;
  ParameterRange parameters_;

  // Overwritten by every Backward before it is read.
  std::unique_ptr<kernels::Buffer> scratch_[2];
};

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_LAYER_STACK_H_
