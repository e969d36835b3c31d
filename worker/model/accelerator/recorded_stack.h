#ifndef SLUICE_WORKER_MODEL_ACCELERATOR_RECORDED_STACK_H_
#define SLUICE_WORKER_MODEL_ACCELERATOR_RECORDED_STACK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "kernels/accelerator.h"
#include "worker/model/layer.h"
#include "worker/model/layer_stack.h"
#include "worker/task/flow.h"

namespace sluice {

// Layers [begin, end) of a pass, in the order in which they run.
struct Segment {
  size_t begin = 0;
  size_t end = 0;

  bool operator==(const Segment& other) const {
    return begin == other.begin && end == other.end;
  }
};

// What a segment takes at most where it has several layers: some hundred times
// as long as a launch, and a cancelled task costs two of them.
inline constexpr double kSegmentSeconds = 2e-3;

// What a layer takes at most that has nothing left to compute, as a relu that
// the layer before it has in it: calls that find nothing to wait for.
inline constexpr double kNothingSeconds = 20e-6;

// The segments of a pass whose layers took so many `seconds` each: one behind
// the other, each with as many layers as kSegmentSeconds allows. A layer that
// takes longer is alone but for what behind it takes kNothingSeconds, so that
// no segment is empty.
std::vector<Segment> JoinLayers(absl::Span<const double> seconds);

// Hears, once for each segment, why the device did not record it.
using OnRefused = std::function<void(const absl::Status& why)>;

// Runs the layers of passes over equally large mini-batches in one direction,
// part by part, so that its caller may wait for weights before each. The first
// pass runs the layers as they are, so that everything is prepared; the second
// measures each; the third records them in segments (JoinLayers), which it
// and later ones run; so does the next one on other arrays, because inputs lie
// in two buffers by turns. Before a segment it waits until at most one is not
// done, and looks whether the pass is cancelled. A segment that cannot be
// recorded, and a pass on yet other arrays, runs layer by layer.
//
//   for (const Segment& part : layers.Begin(pass, x, in)) {
//     ...  // Wait for what `part` reads.
//     in = layers.Run(part, pass, x, in);
//   }
//
// Not thread-safe: call from the compute thread.
class RecordedLayers {
 public:
  // Runs `layers`, counted in the order of this direction, from what is at
  // `in`; returns where the last one's result is, which depends on the pointers
  // alone.
  using RunLayers = std::function<absl::StatusOr<const void*>(
      const Pass& pass, Segment layers, const void* x, const void* in)>;

  // `device` and `clock` must outlive it.
  RecordedLayers(
      kernels::Accelerator* device, Clock* clock, size_t layers, RunLayers run,
      OnRefused on_refused = [](const absl::Status&) {});

  // Begins a pass on these arrays: the parts that it is to run, in order. They
  // stay until the next Begin. A pass that is not `recordable` runs layer by
  // layer.
  const std::vector<Segment>& Begin(const Pass& pass, const void* x,
                                    const void* in, bool recordable = true);
  // What RunLayers returns for the next part. kAborted when the pass is
  // cancelled.
  absl::StatusOr<const void*> Run(Segment part, const Pass& pass, const void* x,
                                  const void* in);

 private:
  // What this pass does.
  enum class Mode { kPlain, kPrepare, kMeasure, kRecorded };
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
    bool tried = false;
    std::unique_ptr<kernels::Recording> recording;  // nullptr: refused.
    const void* out = nullptr;
    std::vector<int64_t> final_from;  // What its layers report, in order.
  };
  // A pass's segments on the arrays that they were recorded with.
  struct RecordedPass {
    Arrays arrays;
    std::vector<Recorded> segments;
  };

  // The one on these arrays, or a new one; nullptr: there are enough.
  RecordedPass* PassOn(const Arrays& arrays);
  absl::StatusOr<const void*> Measure(Segment layer, const Pass& pass,
                                      const void* x, const void* in);
  void Record(Segment layers, const Pass& pass, const void* x, const void* in,
              Recorded* recorded);
  absl::StatusOr<const void*> RunSegment(Segment layers, const Pass& pass,
                                         const void* x, const void* in);

  // Constant after construction.
  kernels::Accelerator* const device_;
  Clock* const clock_;
  const RunLayers run_;
  const OnRefused on_refused_;
  std::vector<Segment> layers_;  // Each by itself.

  Mode mode_ = Mode::kPlain;
  bool prepared_ = false;          // All layers have run.
  std::vector<double> seconds_;    // What each took, so far.
  std::vector<Segment> segments_;  // Empty until all were measured.
  std::deque<RecordedPass> passes_;
  RecordedPass* pass_ = nullptr;  // Of these, this pass with kRecorded.
};

// A model's outermost layers, whose training passes over full mini-batches are
// recorded where the device can. Which those are leaves no trace in a result.
//
// Not thread-safe: call from the compute thread.
class RecordedStack {
 public:
  // Records passes over `full` samples. `clock` measures layers; nullptr:
  // nothing is recorded. It and `device` must outlive the stack.
  RecordedStack(std::unique_ptr<LayerStack> layers, int64_t full,
                kernels::Device* device, Clock* clock, OnRefused on_refused);

  // Forward of training: waits for each part's weights before it runs it, and
  // returns the output.
  absl::StatusOr<OrRestarted<const void*>> Forward(const Pass& pass,
                                                   const void* x,
                                                   WeightSource& weights);
  // Forward where all weights are there; nothing is recorded.
  absl::StatusOr<const void*> ForwardAtOnce(const Pass& pass, const void* x);
  // As LayerStack's, but that nobody wants the gradient at `x`.
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

#endif  // SLUICE_WORKER_MODEL_ACCELERATOR_RECORDED_STACK_H_
