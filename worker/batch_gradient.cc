#include "worker/batch_gradient.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "worker/model/clip_norm.h"

namespace sluice {
namespace {

// sum <- share * part, or sum + share * part.
void Accumulate(bool first, float share, absl::Span<const float> part,
                absl::Span<float> sum) {
  for (size_t i = 0; i < sum.size(); ++i) {
    const float term = share * part[i];
    sum[i] = first ? term : sum[i] + term;
  }
}

}  // namespace

BatchGradient::BatchGradient(Options options, const DataSource* data,
                             Model* model)
    : options_(std::move(options)), data_(*data), model_(*model) {
  SLUICE_CHECK(options_.micro_batch >= 1);
}

void BatchGradient::Gather(BatchId batch, absl::Span<const int64_t> samples,
                           int64_t first) {
  batch_.id = batch;
  batch_.first = first;
  data_.Gather(samples, &batch_);
  if (options_.augmentation.has_value()) {
    options_.augmentation->Apply(batch, first, &batch_);
  }
}

absl::StatusOr<Model::Result> BatchGradient::ComputePart(
    absl::Span<const float> weights, absl::Span<float> gradient,
    const CancelToken& cancel, const Observer& observer) {
  observer.on_forward();
  return model_.ComputeGradient(batch_, weights, gradient, cancel,
                                {.on_ready = observer.on_ready,
                                 .await = observer.await,
                                 .on_backward = observer.on_backward,
                                 .on_copy = observer.on_copy});
}

absl::StatusOr<BatchGradient::Result> BatchGradient::ComputeParts(
    BatchId batch, absl::Span<const int64_t> samples,
    absl::Span<const float> weights, absl::Span<float> gradient,
    const CancelToken& cancel, const Observer& observer) {
  const int64_t total = static_cast<int64_t>(samples.size());
  part_.resize(gradient.size());
  Result result;
  for (int64_t first = 0; first < total; first += options_.micro_batch) {
    const int64_t count = std::min(options_.micro_batch, total - first);
    const float share = static_cast<float>(static_cast<double>(count) / total);
    // What has been added up already: from here to the end.
    int64_t done = static_cast<int64_t>(gradient.size());
    Observer part_observer = observer;
    part_observer.on_ready = [&](int64_t from) {
      const int64_t floats = std::exchange(done, from) - from;
      Accumulate(first == 0, share,
                 absl::MakeConstSpan(part_).subspan(from, floats),
                 gradient.subspan(from, floats));
      if (first + count == total) observer.on_ready(from);
    };
    Gather(batch, samples.subspan(first, count), first);
    SLUICE_ASSIGN_OR_RETURN(
        const Model::Result part,
        ComputePart(weights, absl::MakeSpan(part_), cancel, part_observer));
    result.samples += count;
    result.loss += part.loss * static_cast<double>(count);
    result.overflows += part.overflows;
  }
  result.loss /= static_cast<double>(total);
  return result;
}

absl::StatusOr<BatchGradient::Result> BatchGradient::Compute(
    BatchId batch, absl::Span<const float> weights, absl::Span<float> gradient,
    const CancelToken& cancel, const Observer& observer) {
  const std::vector<int64_t> samples = BatchSamples(options_.sampling, batch);
  const int64_t total = static_cast<int64_t>(samples.size());
  const bool clip = options_.clip_norm > 0;
  Observer unclipped = observer;
  if (clip) unclipped.on_ready = [](int64_t) {};
  Result result;
  if (total > options_.micro_batch) {
    SLUICE_ASSIGN_OR_RETURN(result, ComputeParts(batch, samples, weights,
                                                 gradient, cancel, unclipped));
  } else {
    Gather(batch, samples, 0);
    SLUICE_ASSIGN_OR_RETURN(const Model::Result whole,
                            ComputePart(weights, gradient, cancel, unclipped));
    result = {total, whole.loss, whole.overflows};
  }
  if (clip) {
    ClipNorm(options_.clip_norm, options_.statistics, gradient);
    observer.on_ready(0);
  }
  return result;
}

}  // namespace sluice
