// Samples are read one part ahead. `ahead_` is filled by `reading_`, a thread
// that lives from one Next to the following one; Next waits for it, swaps what
// it read with the oldest part that the model has and starts it again. So the
// model reads `computed_` while the thread writes `ahead_`, and whoever touches
// `ahead_` has joined the thread.
//
// Mini-batches 4 and 5 of 8 and 2 samples, micro-batches of 3:
//
//   Compute   reads 4[0..2] into ahead_
//   Next      gives 4[0..2], share 3/8; the thread reads 4[3..5]
//   Next      gives 4[3..5], share 3/8; the thread reads 4[6..7]
//   Next      gives 4[6..7], share 2/8, last of its mini-batch; 5[0..1]
//   Next      5[0..1] from where it was read: nothing follows
//
// If samples are worth guessing, something always follows: the last Next starts
// the thread with the first part of the likely next task. Else PrepareNext
// reads that part, when the model needs none any more. Compute takes it if the
// guess was right.
#include "worker/compute/native_gradient.h"

#include <algorithm>
#include <utility>

#include "common/process/named_thread.h"
#include "common/status_macros.h"

namespace sluice {

NativeGradient::NativeGradient(Options options, const DataSource* data,
                               Model* model)
    : options_(std::move(options)),
      data_(*data),
      model_(*model),
      likely_(options_.sampling, options_.batches_per_round),
      computed_(options_.passes_at_once) {
  SLUICE_CHECK(options_.micro_batch >= 1);
  for (Read& part : computed_) MakeRoom(&part);
  MakeRoom(&ahead_);
}

void NativeGradient::MakeRoom(Read* part) {
  std::vector<float>& inputs = part->batch.inputs;
  inputs.reserve(
      options_.inputs *
      std::min<int64_t>(options_.micro_batch, options_.sampling.batch_size));
  Registered({inputs.data(), inputs.capacity()}, &part->registered);
}

const SharedMemory* NativeGradient::SharedGradient() {
  if (!shared_gradient_.has_value() && gradient_.empty()) {
    auto memory = SharedMemory::Create(
        "sluice gradient",
        options_.parameters * static_cast<int64_t>(sizeof(float)),
        SharedMemory::Others::kRead);
    // Without it the gradient is in memory that nobody else maps.
    if (memory.ok()) shared_gradient_.emplace(*std::move(memory));
  }
  return shared_gradient_.has_value() ? &*shared_gradient_ : nullptr;
}

absl::Span<float> NativeGradient::Gradient() {
  const SharedMemory* const shared = SharedGradient();
  return Registered(shared == nullptr ? Sized(&gradient_) : shared->As<float>(),
                    &gradient_registered_);
}

absl::StatusOr<OrRestarted<Model::Result>> NativeGradient::Compute(
    const Batches& batches, WeightSource& weights, GradientSink& gradient,
    const CancelToken& cancel, TaskProgress* progress) {
  AwaitReading();
  guesses_well_ = batches.first == likely_batches_.first;
  likely_batches_ = batches;
  likely_batches_.first = likely_.After(batches.first, batches.count);
  if (std::exchange(guessed_, std::nullopt) == batches.first) {
    batches_.count = batches.count - (ahead_.last ? 1 : 0);
  } else {  // The first task, a wrong guess, or after one that was cut short.
    batches_ = batches;
    samples_.clear();
    ReadOne();
  }
  return model_.ComputeGradient({.count = batches.count,
                                 .rate = batches.rate,
                                 .clip_norm = options_.clip_norm,
                                 .next = [this] { return Next(); }},
                                weights, gradient, cancel, progress);
}

void NativeGradient::PrepareNext() {
  if (guessed_.has_value() || !guesses_well_) return;
  AwaitReading();
  batches_ = likely_batches_;
  guessed_ = batches_.first;
  samples_.clear();
  ReadOne();
}

absl::StatusOr<Model::Part> NativeGradient::Next() {
  AwaitReading();
  SLUICE_RETURN_IF_ERROR(read_);
  if (batches_.count == 0) {
    // Where no part follows there is no need of memory for two.
    if (!data_.worth_guessing()) return ahead_.part();
    batches_ = likely_batches_;
    guessed_ = batches_.first;
  }
  Read& given = computed_[oldest_];
  oldest_ = (oldest_ + 1) % computed_.size();
  std::swap(given, ahead_);
  // A thread inherits the numeric mode of the one that starts it.
  reading_ = StartThread("read samples", [this] { ReadOne(); });
  return given.part();
}

void NativeGradient::ReadOne() {
  if (samples_.empty()) {
    samples_ = BatchSamples(options_.sampling, batches_.first);
    first_ = 0;
  }
  const int64_t total = static_cast<int64_t>(samples_.size());
  const int64_t count = std::min(options_.micro_batch, total - first_);
  Batch& batch = ahead_.batch;
  batch.id = batches_.first;
  batch.first = first_;
  read_ = data_.Gather(absl::MakeConstSpan(samples_).subspan(first_, count),
                       &batch);
  if (read_.ok() && options_.augmentation.has_value()) {
    options_.augmentation->Apply(batch.id, batch.first, &batch);
  }
  ahead_.share = static_cast<float>(static_cast<double>(count) /
                                    static_cast<double>(total));
  first_ += count;
  ahead_.last = first_ == total;
  if (!ahead_.last) return;
  samples_.clear();
  ++batches_.first;
  --batches_.count;
}

}  // namespace sluice
