#ifndef SLUICE_WORKER_BATCH_GRADIENT_H_
#define SLUICE_WORKER_BATCH_GRADIENT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "common/parameter_layout.h"
#include "worker/cancel_token.h"
#include "worker/data/augmentation.h"
#include "worker/data/batch_samples.h"
#include "worker/data/data_source.h"
#include "worker/model/model.h"

namespace sluice {

// The gradient of one mini-batch, computed in micro-batches where the whole
// would not fit in memory:
//
//   g <- a_1 g_1,  then  g <- g + a_j g_j   for j = 2..m, in order
//
// with g_j the mean over the j-th micro_batch samples and a_j their share of
// the mini-batch's. Product and sum are rounded to fp32 each. In the end g is
// clipped, if the job says so.
//
// Memory   that of a forward and backward pass of micro_batch samples; where
//          there are several, one more gradient.
// Numerics a function of the mini-batch, the weights and micro_batch alone. It
//          differs from the unsplit gradient by rounding only: of one dense
//          layer, in each element, by at most
//            2 (n + 3 m) 2^-24 mean |g_s|
//          with g_s what sample s of n contributes: both are sums of the same
//          terms in another order (Higham 2002, section 4.2), with a few
//          roundings more for the shares. Behind further layers the same goes
//          for each of their sums.
//
// Not thread-safe: call from the thread that computes.
class BatchGradient {
 public:
  struct Options {
    BatchSampling sampling;
    int64_t micro_batch = 1 << 20;  // Samples; the largest mini-batch's.
    std::optional<Augmentation> augmentation;
    double clip_norm = 0;  // Largest norm of the whole gradient; 0: none.
    // The floats that are running statistics, in order: neither clipping nor a
    // local step touches them.
    std::vector<ParameterRange> statistics;
  };
  // `data` and `model`, which is prepared for the samples of one micro-batch,
  // must outlive this.
  BatchGradient(Options options, const DataSource* data, Model* model);

  struct Result {
    int64_t samples = 0;
    double loss = 0;    // Mean over the samples.
    int overflows = 0;  // As Model::Result's, of all micro-batches.
  };
  struct Observer {
    // Each time a forward pass begins, and a backward pass.
    std::function<void()> on_forward = [] {};
    std::function<void()> on_backward = [] {};
    // As Model::Observer's. The samples have been gathered when it is called.
    std::function<absl::StatusOr<int64_t>(int64_t end)> await = nullptr;
    std::function<void(bool to_device, bool begin)> on_copy = [](bool, bool) {};
    // As Model::OnGradientReady, of the whole mini-batch's gradient: during the
    // last backward pass, or after it where the gradient is clipped, whose
    // factor is known only then.
    Model::OnGradientReady on_ready = [](int64_t) {};
  };

  // Writes the mean gradient of mini-batch `batch` at `weights` whole into
  // `gradient`. Looks at `cancel` between layers, and so between micro-batches:
  // kAborted when it is set; else errors as Model's.
  // REQUIRES: `weights` and `gradient` have the flat vector's size.
  absl::StatusOr<Result> Compute(BatchId batch, absl::Span<const float> weights,
                                 absl::Span<float> gradient,
                                 const CancelToken& cancel,
                                 const Observer& observer);

 private:
  // Gathers samples [first, first + count) of the mini-batch into `batch_`.
  void Gather(BatchId batch, absl::Span<const int64_t> samples, int64_t first);
  absl::StatusOr<Model::Result> ComputePart(absl::Span<const float> weights,
                                            absl::Span<float> gradient,
                                            const CancelToken& cancel,
                                            const Observer& observer);
  // A mini-batch of several micro-batches.
  absl::StatusOr<Result> ComputeParts(BatchId batch,
                                      absl::Span<const int64_t> samples,
                                      absl::Span<const float> weights,
                                      absl::Span<float> gradient,
                                      const CancelToken& cancel,
                                      const Observer& observer);

  // Constant after construction.
  const Options options_;
  const DataSource& data_;
  Model& model_;

  // Written before they are read.
  Batch batch_;
  std::vector<float> part_;  // Empty until there are several micro-batches.
};

}  // namespace sluice

#endif  // SLUICE_WORKER_BATCH_GRADIENT_H_
