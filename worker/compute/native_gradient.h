#ifndef SLUICE_WORKER_COMPUTE_NATIVE_GRADIENT_H_
#define SLUICE_WORKER_COMPUTE_NATIVE_GRADIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/process/shared_memory.h"
#include "kernels/accelerator.h"
#include "worker/compute/likely_batches.h"
#include "worker/data/augmentation.h"
#include "worker/data/batch_samples.h"
#include "worker/data/data_source.h"
#include "worker/model/model.h"
#include "worker/task/cancel_token.h"
#include "worker/task/flow.h"
#include "worker/task/task_gradient.h"
#include "worker/task/task_progress.h"

namespace sluice {

// The gradient of a task by the job's layers, in this process. Each mini-batch
// is computed in micro-batches where the whole would not fit in memory, in
// order; the share of each is that of its samples.
//
// Memory   that of a forward and backward pass of micro_batch samples; where
//          there are several micro-batches, one more gradient; where there are
//          several mini-batches, another one, and on a device with host memory
//          a copy of the weights; in both cases, and where the next samples
//          are guessed, the samples of one pass more than stay
//          (passes_at_once).
// Numerics a function of the mini-batches, the weights and micro_batch alone.
//          A mini-batch's gradient in micro-batches differs from the unsplit
//          one by rounding only: of one dense layer, in each element, by at
//          most
//            2 (n + 3 m) 2^-24 mean |g_s|
//          with g_s what sample s of n contributes, and m micro-batches: both
//          are sums of the same terms in another order (Higham 2002, section
//          4.2), with a few roundings more for the shares. Behind further
//          layers the same goes for each of their sums.
//
// Not thread-safe: call from the compute thread.
class NativeGradient final : public TaskGradient {
 public:
  struct Options {
    BatchSampling sampling;
    int64_t micro_batch = 1 << 20;  // Samples; the largest mini-batch's.
    std::optional<Augmentation> augmentation;
    double clip_norm = 0;    // Largest norm of a mini-batch's gradient; 0: any.
    int64_t parameters = 0;  // Floats of Weights and Gradient.
    int64_t inputs = 0;      // Floats of a sample's.
    // Parts whose samples stay while the model computes, at least 1.
    int passes_at_once = 1;
    // Mini-batches that all workers are given in turn.
    int64_t batches_per_round = 1;
  };
  // `data` and `model`, which is prepared for the samples of one micro-batch,
  // must outlive this.
  NativeGradient(Options options, const DataSource* data, Model* model);
  ~NativeGradient() override { AwaitReading(); }

  absl::Span<float> Weights(int which) override {
    return Registered(Sized(&weights_[which]), &weights_registered_[which]);
  }
  absl::Span<float> Gradient() override;
  const SharedMemory* SharedGradient() override;
  // The first part's samples are read before its forward pass begins, and all
  // others', on a thread of their own, while the part before them is computed.
  // If samples are worth guessing, the first part of the task that is likely
  // the next is read during the last part of this one. Errors are also those of
  // DataSource::Gather.
  absl::StatusOr<OrRestarted<Model::Result>> Compute(
      const Batches& batches, WeightSource& weights, GradientSink& gradient,
      const CancelToken& cancel, TaskProgress* progress) override;
  // Reads the first part of the likely next task, if the last guess was right:
  // where samples are read fast that is cheaper than a thread.
  void PrepareNext() override;

 private:
  // A part with the memory for its samples.
  struct Read {
    Batch batch;
    float share = 1;
    bool last = true;
    // Of the inputs' memory.
    std::unique_ptr<kernels::Registration> registered;
    Model::Part part() const {
      return {.batch = &batch, .share = share, .last = last};
    }
  };

  absl::Span<float> Sized(std::vector<float>* vector) const {
    vector->resize(options_.parameters);
    return absl::MakeSpan(*vector);
  }
  // `memory`, made known to the model's device.
  absl::Span<float> Registered(
      absl::Span<float> memory,
      std::unique_ptr<kernels::Registration>* registered) {
    if (*registered == nullptr) *registered = model_.Register(memory);
    return memory;
  }
  // Memory for the largest part, which stays where it is.
  void MakeRoom(Read* part);
  // The part that was read; if one follows, or is likely to, it begins to be.
  absl::StatusOr<Model::Part> Next();
  // Reads part after part of `batches_` into `ahead_`.
  void ReadOne();
  void AwaitReading() {
    if (reading_.joinable()) reading_.join();
  }

  // Constant after construction.
  const Options options_;
  const DataSource& data_;
  Model& model_;

  std::vector<float> weights_[2];  // Empty until they are asked for.
  LikelyBatches likely_;
  // One of these two, then.
  std::optional<SharedMemory> shared_gradient_;
  std::vector<float> gradient_;
  std::unique_ptr<kernels::Registration> weights_registered_[2],
      gradient_registered_;

  // Written by each call before they are read. While `reading_` runs only it
  // touches what is behind `computed_`.
  std::vector<Read> computed_;  // What the model has, passes_at_once of them.
  size_t oldest_ = 0;           // Of these, the one that is given up next.
  Read ahead_;
  Batches batches_;               // Those that are still to be read.
  std::vector<int64_t> samples_;  // Of the first of them; empty: not begun.
  int64_t first_ = 0;             // Of `samples_`, those that were read.
  absl::Status read_;             // How reading `ahead_` ended.
  // The first mini-batch of the task that was guessed, if `ahead_` is its.
  std::optional<BatchId> guessed_;
  // Those of the likely next task; whether this one's were guessed.
  Batches likely_batches_ = {.first = BatchId(-1)};
  bool guesses_well_ = false;
  std::thread reading_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_COMPUTE_NATIVE_GRADIENT_H_
