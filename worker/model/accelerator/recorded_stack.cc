// Why parts: to a GPU each operation of a layer is a launch, and those of small
// layers cost more than their work. Recorded once and run as one, a segment of
// layers is one launch. But a recording cannot wait for weights, nor
// for whoever takes the gradient: so it holds operations only, weights are
// waited for before it, and what it makes final is said behind it.
//
// The passes over full mini-batches, one after the other:
//
//   1       kPrepare: layer by layer; what is made at first use is made now
//   2       kMeasure: layer by layer, each timed; then joined to segments
//   3       kRecorded: each segment is recorded as its turn comes, and run
//   4       the same on the second of two input buffers
//   5 ...   kRecorded: a launch for each segment; with other arrays, which no
//           recording knows, layer by layer (kPlain)
//
// A device that cannot record runs every pass layer by layer (Mode::kPlain):
// that is the whole story on the CPU.
#include "worker/model/accelerator/recorded_stack.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"

namespace sluice {
namespace {

// One runs and one waits behind it: the device need not wait for the host, and
// a cancelled task costs no more than these two.
constexpr int kSegmentsAhead = 1;

// Inputs lie in two buffers by turns (HostArray::CreateBeside).
constexpr size_t kMostPasses = 2;

// Keeps what would be said to a pass's sink, to say it later: while layers are
// recorded nothing of the gradient is there, and while they are measured its
// way to the host is no part of their time.
class KeptReports final : public GradientSink {
 public:
  KeptReports(const Pass& pass, std::vector<int64_t>* final_from)
      : pass_(pass), final_from_(*final_from) {}

  // `pass`, with this as its sink.
  Pass Quiet() {
    Pass quiet = pass_;
    quiet.sink = this;
    return quiet;
  }
  // Only the pass's own sink knows how many there are.
  absl::Span<float> values() override { return pass_.sink->values(); }
  absl::Status FinalFrom(int64_t from) override {
    final_from_.push_back(from);
    return absl::OkStatus();
  }

 private:
  const Pass& pass_;
  std::vector<int64_t>& final_from_;
};

absl::Status Report(const Pass& pass, const std::vector<int64_t>& final_from) {
  for (const int64_t from : final_from) {
    SLUICE_RETURN_IF_ERROR(pass.sink->FinalFrom(from));
  }
  return absl::OkStatus();
}

}  // namespace

// Layers of 0.5, 0.9, 0.8, 3, 0.01 and 1.5 ms, at most 2 ms together:
//
//   {0, 1}   1.4 ms; 2.2 with the next
//   {2}      0.8 ms; 3.8 with the next
//   {3, 4}   3 ms, too long by itself; 4 has nothing left to compute and joins:
//            a segment of its own would cost a launch
//   {5}      1.5 ms
std::vector<Segment> JoinLayers(absl::Span<const double> seconds) {
  std::vector<Segment> segments;
  double taken = 0;  // By the last one.
  for (size_t i = 0; i < seconds.size(); ++i) {
    if (segments.empty() || (taken + seconds[i] > kSegmentSeconds &&
                             seconds[i] > kNothingSeconds)) {
      segments.push_back({i, i});
      taken = 0;
    }
    segments.back().end = i + 1;
    taken += seconds[i];
  }
  return segments;
}

RecordedLayers::RecordedLayers(kernels::Accelerator* device, Clock* clock,
                               size_t layers, RunLayers run,
                               OnRefused on_refused)
    : device_(device),
      clock_(clock),
      run_(std::move(run)),
      on_refused_(std::move(on_refused)) {
  for (size_t i = 0; i < layers; ++i) layers_.push_back({i, i + 1});
}

const std::vector<Segment>& RecordedLayers::Begin(const Pass& pass,
                                                  const void* x, const void* in,
                                                  bool recordable) {
  const Arrays arrays = {pass.weights, pass.gradient, x, in};
  if (!recordable) {
    mode_ = Mode::kPlain;
  } else if (!prepared_) {
    mode_ = Mode::kPrepare;
  } else if (segments_.empty()) {
    mode_ = Mode::kMeasure;
    seconds_.clear();
  } else {
    pass_ = PassOn(arrays);
    mode_ = pass_ != nullptr ? Mode::kRecorded : Mode::kPlain;
  }
  return mode_ == Mode::kRecorded ? segments_ : layers_;
}

RecordedLayers::RecordedPass* RecordedLayers::PassOn(const Arrays& arrays) {
  for (RecordedPass& pass : passes_) {
    if (pass.arrays == arrays) return &pass;
  }
  if (passes_.size() == kMostPasses) return nullptr;
  RecordedPass* const made = &passes_.emplace_back(
      RecordedPass{arrays, std::vector<Recorded>(segments_.size())});
  // What was refused once is not asked for again.
  for (size_t i = 0; i < segments_.size(); ++i) {
    const Recorded& first = passes_.front().segments[i];
    made->segments[i].tried = first.tried && first.recording == nullptr;
  }
  return made;
}

absl::StatusOr<const void*> RecordedLayers::Run(Segment part, const Pass& pass,
                                                const void* x, const void* in) {
  switch (mode_) {
    case Mode::kPlain:
      break;
    case Mode::kPrepare: {
      SLUICE_ASSIGN_OR_RETURN(const void* out, run_(pass, part, x, in));
      prepared_ = part == layers_.back();
      return out;
    }
    case Mode::kMeasure:
      return Measure(part, pass, x, in);
    case Mode::kRecorded:
      return RunSegment(part, pass, x, in);
  }
  return run_(pass, part, x, in);
}

absl::StatusOr<const void*> RecordedLayers::Measure(Segment layer,
                                                    const Pass& pass,
                                                    const void* x,
                                                    const void* in) {
  // The ways of weights and gradient are no part of a layer's time.
  SLUICE_RETURN_IF_ERROR(device_->Synchronize());
  std::vector<int64_t> final_from;
  KeptReports kept(pass, &final_from);
  const absl::Time start = clock_->Now();
  SLUICE_ASSIGN_OR_RETURN(const void* out, run_(kept.Quiet(), layer, x, in));
  SLUICE_RETURN_IF_ERROR(device_->Synchronize());
  seconds_.push_back(absl::ToDoubleSeconds(clock_->Now() - start));
  SLUICE_RETURN_IF_ERROR(Report(pass, final_from));
  if (layer == layers_.back()) {
    segments_ = JoinLayers(seconds_);
  }
  return out;
}

void RecordedLayers::Record(Segment layers, const Pass& pass, const void* x,
                            const void* in, Recorded* recorded) {
  recorded->tried = true;
  KeptReports kept(pass, &recorded->final_from);
  Pass quiet = kept.Quiet();
  quiet.recorded = true;
  auto recording = device_->Record([&]() -> absl::Status {
    SLUICE_ASSIGN_OR_RETURN(recorded->out, run_(quiet, layers, x, in));
    return absl::OkStatus();
  });
  if (recording.ok()) {
    recorded->recording = *std::move(recording);
    return;
  }
  // Without it the layers run as they always can, and an error of the device
  // shows itself again.
  on_refused_(recording.status());
}

absl::StatusOr<const void*> RecordedLayers::RunSegment(Segment layers,
                                                       const Pass& pass,
                                                       const void* x,
                                                       const void* in) {
  const auto segment = std::find(segments_.begin(), segments_.end(), layers);
  Recorded& recorded = pass_->segments[segment - segments_.begin()];
  if (!recorded.tried) Record(layers, pass, x, in, &recorded);
  if (recorded.recording == nullptr) return run_(pass, layers, x, in);
  SLUICE_RETURN_IF_ERROR(PauseBetween(device_, kSegmentsAhead, pass));
  SLUICE_RETURN_IF_ERROR(recorded.recording->Run());
  SLUICE_RETURN_IF_ERROR(Report(pass, recorded.final_from));
  return recorded.out;
}

RecordedStack::RecordedStack(std::unique_ptr<LayerStack> layers, int64_t full,
                             kernels::Device* device, Clock* clock,
                             OnRefused on_refused)
    : layers_(std::move(layers)),
      full_(full),
      records_(clock != nullptr && device->accelerator() != nullptr),
      forward_(
          device->accelerator(), clock, layers_->size(),
          [this](const Pass& pass, Segment part, const void* x,
                 const void* in) -> absl::StatusOr<const void*> {
            return layers_->ForwardPart(pass, x, part.begin, part.end);
          },
          on_refused),
      backward_(
          device->accelerator(), clock,
          layers_->size() - layers_->first_with_parameters(),
          [this](const Pass& pass, Segment part, const void* x,
                 const void* dy) {
            const size_t last = layers_->size();
            return layers_->BackwardPart(pass, x, dy, last - part.end,
                                         last - part.begin,
                                         /*wants_dx=*/false);
          },
          on_refused) {}

absl::StatusOr<OrRestarted<const void*>> RecordedStack::Forward(
    const Pass& pass, const void* x, WeightSource& weights) {
  SLUICE_RETURN_IF_ERROR(layers_->BeginPass(pass));
  const bool records = MayRecord(pass);
  const void* y = x;
  for (const Segment& part : forward_.Begin(pass, x, x, records)) {
    SLUICE_ASSIGN_OR_RETURN(
        const auto waited,
        weights.WaitUntil(layers_->ParametersEnd(part.begin, part.end)));
    if (IsRestarted(waited)) return Restarted{};
    SLUICE_ASSIGN_OR_RETURN(y, forward_.Run(part, pass, x, y));
  }
  // Segments keep a pace of their own.
  SLUICE_RETURN_IF_ERROR(records ? LookForCancel(pass) : layers_->Pause(pass));
  return y;
}

absl::StatusOr<const void*> RecordedStack::ForwardAtOnce(const Pass& pass,
                                                         const void* x) {
  SLUICE_RETURN_IF_ERROR(layers_->BeginPass(pass));
  SLUICE_RETURN_IF_ERROR(layers_->Forward(pass, x));
  return layers_->Output(x);
}

absl::Status RecordedStack::Backward(const Pass& pass, const void* x,
                                     const void* dy) {
  for (const Segment& part : backward_.Begin(pass, x, dy, MayRecord(pass))) {
    SLUICE_ASSIGN_OR_RETURN(dy, backward_.Run(part, pass, x, dy));
  }
  return absl::OkStatus();
}

}  // namespace sluice
