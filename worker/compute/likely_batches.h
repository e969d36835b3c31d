#ifndef SLUICE_WORKER_COMPUTE_LIKELY_BATCHES_H_
#define SLUICE_WORKER_COMPUTE_LIKELY_BATCHES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "common/batch_grid.h"
#include "common/ids.h"
#include "worker/data/batch_samples.h"

namespace sluice {

// A guess at the mini-batches that a worker is given next, so that their
// samples can be read meanwhile. Of STATIC partitions it is right: the worker's
// own mini-batches follow each other. Else workers of one speed take turns, in
// an order that changes; one that is faster than the others gets more, so its
// tasks are nearer to each other.
//
// Not thread-safe: call from the compute thread.
class LikelyBatches {
 public:
  // `batches_per_round`: mini-batches that all workers are given in turn.
  LikelyBatches(const BatchSampling& sampling, int64_t batches_per_round)
      : grid_(sampling.train_samples, sampling.batch_size, sampling.partitions),
        stride_(static_cast<double>(batches_per_round)) {}

  // The first mini-batch of the likely next task, after one of `count` from
  // `first` on, which the worker has begun.
  BatchId After(BatchId first, int count) {
    if (grid_.partitions() > 1) {
      const int partition = grid_.SliceOf(first).partition;
      return grid_.BatchAt(grid_.CountBefore(first, partition) + 1, partition);
    }
    constexpr double kWeight = 0.125;  // Of the newest, in the average.
    // One that another worker gave back does not count, and a long pause
    // little.
    if (last_.has_value() && first > *last_) {
      const double stride =
          std::min(static_cast<double>(first - *last_), 2 * stride_);
      stride_ += kWeight * (stride - stride_);
    }
    last_ = first;
    const auto tasks = static_cast<int64_t>(std::round(stride_ / count));
    return BatchId(first.value() + count * std::max<int64_t>(1, tasks));
  }

 private:
  const BatchGrid grid_;
  // From a task's first mini-batch to that of the next, a moving average.
  double stride_;
  std::optional<BatchId> last_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_COMPUTE_LIKELY_BATCHES_H_
