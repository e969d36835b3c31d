#include "worker/model/recorded_stack.h"

#include <utility>

#include "common/status_macros.h"

namespace sluice {
namespace {

// One runs and one waits behind it: the device need not wait for the host, and
// a cancelled task costs no more than these two.
constexpr int kSegmentsAhead = 1;

// `pass`, whose parts of the gradient go to `final` instead of being reported.
Pass Quiet(const Pass& pass, std::vector<ParameterRange>* final) {
  Pass quiet = pass;
  quiet.on_final = [final](ParameterRange range) {
    final->push_back(range);
    return absl::OkStatus();
  };
  return quiet;
}

absl::Status Report(const Pass& pass,
                    const std::vector<ParameterRange>& final) {
  for (const ParameterRange& range : final) {
    SLUICE_RETURN_IF_ERROR(pass.on_final(range));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<const void*> RecordedLayers::Run(const Pass& pass, const void* x,
                                                const void* in) {
  if (!prepared_) {
    SLUICE_ASSIGN_OR_RETURN(const void* out, run_(pass, all_, x, in));
    prepared_ = true;
    return out;
  }
  if (segments_.empty()) return Measure(pass, x, in);
  if (!(arrays_ == Arrays{pass.weights, pass.gradient, x, in})) {
    return run_(pass, all_, x, in);
  }
  for (Recorded& segment : segments_) {
    SLUICE_ASSIGN_OR_RETURN(in, RunSegment(pass, x, in, &segment));
  }
  return in;
}

absl::StatusOr<const void*> RecordedLayers::Measure(const Pass& pass,
                                                    const void* x,
                                                    const void* in) {
  const Arrays arrays = {pass.weights, pass.gradient, x, in};
  std::vector<double> seconds;
  for (size_t i = 0; i < all_.end; ++i) {
    // The ways of weights and gradient are no part of a layer's time.
    SLUICE_RETURN_IF_ERROR(pass.need(needed_({i, i + 1})));
    SLUICE_RETURN_IF_ERROR(device_->Synchronize());
    std::vector<ParameterRange> final;
    const absl::Time start = clock_->Now();
    SLUICE_ASSIGN_OR_RETURN(in, run_(Quiet(pass, &final), {i, i + 1}, x, in));
    SLUICE_RETURN_IF_ERROR(device_->Synchronize());
    seconds.push_back(absl::ToDoubleSeconds(clock_->Now() - start));
    SLUICE_RETURN_IF_ERROR(Report(pass, final));
  }
  for (const Segment& layers : JoinLayers(seconds)) {
    segments_.emplace_back(layers);
  }
  arrays_ = arrays;
  return in;
}

void RecordedLayers::Record(const Pass& pass, const void* x, const void* in,
                            Recorded* segment) {
  segment->tried = true;
  Pass recorded = Quiet(pass, &segment->final);
  recorded.recorded = true;
  recorded.need = [](int64_t) { return absl::OkStatus(); };
  auto recording = device_->Record([&]() -> absl::Status {
    SLUICE_ASSIGN_OR_RETURN(segment->out,
                            run_(recorded, segment->layers, x, in));
    return absl::OkStatus();
  });
  if (recording.ok()) {
    segment->recording = *std::move(recording);
    return;
  }
  // Without it the layers run as they always can, and an error of the device
  // shows itself again.
  on_refused_(recording.status());
}

absl::StatusOr<const void*> RecordedLayers::RunSegment(const Pass& pass,
                                                       const void* x,
                                                       const void* in,
                                                       Recorded* segment) {
  if (!segment->tried) Record(pass, x, in, segment);
  if (segment->recording == nullptr) {
    return run_(pass, segment->layers, x, in);
  }
  SLUICE_RETURN_IF_ERROR(PauseBetween(device_, kSegmentsAhead, pass));
  SLUICE_RETURN_IF_ERROR(pass.need(needed_(segment->layers)));
  SLUICE_RETURN_IF_ERROR(segment->recording->Run());
  SLUICE_RETURN_IF_ERROR(Report(pass, segment->final));
  return segment->out;
}

RecordedStack::RecordedStack(std::unique_ptr<LayerStack> layers, int64_t full,
                             kernels::Device* device, Clock* clock,
                             OnRefused on_refused)
    : layers_(std::move(layers)),
      full_(full),
      records_(clock != nullptr && device->can_record()),
      forward_(
          device, clock, layers_->size(),
          [this](const Pass& pass, Segment part, const void* x,
                 const void* in) -> absl::StatusOr<const void*> {
            return layers_->ForwardPart(pass, x, part.begin, part.end);
          },
          [this](Segment part) {
            return layers_->ParametersEnd(part.begin, part.end);
          },
          on_refused),
      backward_(
          device, clock, layers_->size() - layers_->first_with_parameters(),
          [this](const Pass& pass, Segment part, const void* x,
                 const void* dy) {
            const size_t last = layers_->size();
            return layers_->BackwardPart(pass, x, dy, last - part.end,
                                         last - part.begin,
                                         /*wants_dx=*/false);
          },
          [](Segment) { return 0; }, on_refused) {}

absl::Status RecordedStack::Forward(const Pass& pass, const void* x) {
  SLUICE_RETURN_IF_ERROR(layers_->BeginPass(pass));
  if (!MayRecord(pass)) return layers_->Forward(pass, x);
  SLUICE_RETURN_IF_ERROR(forward_.Run(pass, x, x).status());
  return pass.cancel.cancelled() ? absl::AbortedError("the task was cancelled")
                                 : absl::OkStatus();
}

absl::Status RecordedStack::Backward(const Pass& pass, const void* x,
                                     const void* dy) {
  if (!MayRecord(pass)) {
    return layers_->Backward(pass, x, dy, /*wants_dx=*/false).status();
  }
  return backward_.Run(pass, x, dy).status();
}

}  // namespace sluice
