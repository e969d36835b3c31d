#ifndef SLUICE_WORKER_MODEL_RECORDED_STACK_H_
#define SLUICE_WORKER_MODEL_RECORDED_STACK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/parameter_layout.h"
#include "kernels/device.h"
#include "worker/model/layer.h"
#include "worker/model/layer_stack.h"
#include "worker/model/segments.h"

namespace sluice {

// Hears, once for each segment, why the device did not record it.
using OnRefused = std::function<void(const absl::Status& why)>;

// Runs the layers of passes over equally large mini-batches in one direction.
// The first pass runs them as they are, so that everything is prepared; the
// second measures each; the third records them in segments (see segments.h),
// which it and later ones run. Before a segment it waits until at most one is
// not done, and looks whether the pass is cancelled. A segment that cannot be
// recorded, and a pass on other arrays than those recorded, runs layer by
// layer.
//
// Not thread-safe: call from the thread that computes.
class RecordedLayers {
 public:
  // Runs `layers`, counted in the order of this direction, from what is at
  // `in`; returns where the last one's result is, which depends on the pointers
  // alone.
  using RunLayers = std::function<absl::StatusOr<const void*>(
      const Pass& pass, Segment layers, const void* x, const void* in)>;

  // Where the last of the weights end that `layers` need.
  using NeededOf = std::function<int64_t(Segment layers)>;

  // `device` and `clock` must outlive it.
  RecordedLayers(
      kernels::Device* device, Clock* clock, size_t layers, RunLayers run,
      NeededOf needed, OnRefused on_refused = [](const absl::Status&) {})
      : device_(device),
        clock_(clock),
        all_{0, layers},
        run_(std::move(run)),
        needed_(std::move(needed)),
        on_refused_(std::move(on_refused)) {}

  // What RunLayers returns for all of them. kAborted when the pass is
  // cancelled.
  absl::StatusOr<const void*> Run(const Pass& pass, const void* x,
                                  const void* in);

 private:
  // What a recording has in it.
  struct Arrays {
    const float *weights, *gradient;
    const void *x, *in;
    bool operator==(const Arrays& other) const {
      return weights == other.weights && gradient == other.gradient &&
             x == other.x && in == other.in;
    }
  };
  struct Recorded {
    explicit Recorded(Segment layers) : layers(layers) {}

    Segment layers;
    bool tried = false;
    std::unique_ptr<kernels::Recording> recording;  // nullptr: refused.
    const void* out = nullptr;
    std::vector<ParameterRange> final;  // What its layers report, in order.
  };

  absl::StatusOr<const void*> Measure(const Pass& pass, const void* x,
                                      const void* in);
  void Record(const Pass& pass, const void* x, const void* in,
              Recorded* segment);
  absl::StatusOr<const void*> RunSegment(const Pass& pass, const void* x,
                                         const void* in, Recorded* segment);

  kernels::Device* const device_;
  Clock* const clock_;
  const Segment all_;
  const RunLayers run_;
  const NeededOf needed_;
  const OnRefused on_refused_;

  bool prepared_ = false;  // All layers have run.
  Arrays arrays_ = {};     // With which they were measured.
  std::vector<Recorded> segments_;
};

// A model's outermost layers, whose training passes over full mini-batches are
// recorded where the device can. Which those are leaves no trace in a result.
//
// Not thread-safe: call from the thread that computes.
class RecordedStack {
 public:
  // Records passes over `full` samples. `clock` measures layers; nullptr:
  // nothing is recorded. It and `device` must outlive the stack.
  RecordedStack(std::unique_ptr<LayerStack> layers, int64_t full,
                kernels::Device* device, Clock* clock, OnRefused on_refused);

  // As LayerStack's, but that Forward begins the pass, and that nobody wants
  // the gradient at `x`.
  absl::Status Forward(const Pass& pass, const void* x);
  const void* Output(const void* x) const { return layers_->Output(x); }
  absl::Status Backward(const Pass& pass, const void* x, const void* dy);
  void* scratch() const { return layers_->scratch(); }

 private:
  bool MayRecord(const Pass& pass) const {
    return records_ && pass.batch.has_value() && pass.samples == full_;
  }

  // Constant after construction.
  const std::unique_ptr<LayerStack> layers_;
  const int64_t full_;
  const bool records_;

  RecordedLayers forward_, backward_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_RECORDED_STACK_H_
